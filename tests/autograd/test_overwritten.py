"""A tensor that a backward needs is overwritten first: an error, or the right number.

In eager mode autograd compares versions. In a compiled graph it can when the write comes after the
graph; a write inside the graph has to fail when the graph is compiled. A compiled norm is plain
PyTorch, which keeps what it made of a table and a weight: no write reaches that.
"""

import pytest
import torch

from inputs import angles
from rope_kernels import apply_rotary_pos_emb, norm_rope

S, B, H, D = 4, 2, 3, 8


def rotate(x, weight, freqs):
    return apply_rotary_pos_emb(x, freqs)


def normalize(x, weight, freqs):
    return norm_rope(x, weight, freqs)


CASES = {  # the call, and which of its arguments is overwritten
    "a rotation's table": (rotate, 2),
    "a norm's table": (normalize, 2),
    "a norm's weight": (normalize, 1),
    "a norm's input": (normalize, 0),
}
each_case_and_backend = pytest.mark.parametrize(
    "name,backend", [*((name, "aot_eager") for name in CASES), ("a norm's weight", "eager")]
)


def arguments(device):
    leaf = torch.randn(S, B, H, D, device=device, requires_grad=True)
    weight = torch.randn(D, device=device, requires_grad=True)
    return leaf, weight, angles(S, D, device)


def inside(leaf, weight, freqs, call, which):
    """Everything in one graph: copies, the call, and the write."""
    given = leaf * 1, weight * 1, freqs * 1
    out = call(*given)
    given[which].mul_(2)
    return out


def after(leaf, weight, freqs, call, which, compiled):
    given = leaf * 1, weight * 1, freqs * 1
    out = compiled(*given)
    with torch.no_grad():
        given[which].mul_(2)
    return out


def run(function, *inputs):
    function(*inputs).sum().backward()


def assert_right(function, unwritten, *inputs):
    """The gradient of a norm's input that PyTorch took with what the write replaced."""
    run(function, *inputs)
    (want,) = torch.autograd.grad(unwritten(*inputs[:3]).sum(), inputs[0])
    torch.testing.assert_close(inputs[0].grad, want)


@pytest.mark.parametrize("name", CASES)
def test_in_eager_mode_the_backward_raises(name, device):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(inside, *arguments(device), *CASES[name])


@each_case_and_backend
def test_inside_a_compiled_graph_it_is_an_error_or_comes_too_late(name, backend, device):
    torch._dynamo.reset()
    compiled = torch.compile(inside, backend=backend, fullgraph=True)
    inputs = arguments(device)
    if name in ("a norm's table", "a norm's weight"):  # plain PyTorch keeps what it makes of them
        assert_right(compiled, CASES[name][0], *inputs, *CASES[name])
        return
    with pytest.raises(Exception, match="modified by an inplace operation"):
        run(compiled, *inputs, *CASES[name])


@each_case_and_backend
def test_after_a_compiled_graph_the_backward_raises_or_has_its_own(name, backend, device):
    torch._dynamo.reset()
    call, which = CASES[name]
    compiled = torch.compile(call, backend=backend, fullgraph=True)
    inputs = arguments(device)
    if (name, backend) in (("a norm's table", "aot_eager"), ("a norm's weight", "eager")):
        assert_right(after, call, *inputs, call, which, compiled)
        return
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(after, *inputs, call, which, compiled)
