"""The fast path of norms: what is remembered of a call, and what makes it another one.

It launches through the JIT or the interpreter again here. That the driver gets the same both ways
is in `test_fast_path.py`.
"""

import pytest
import torch

from inputs import FORMATS, angles, shape_of
from norm_yardstick import check
from pairwise import each_pair
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope
from rope_kernels.launch import fastpath, launch
from rope_kernels.launch.launch import kernel_of

pytest.importorskip("triton", reason="needs Triton")
S, B, D = 5, 2, 8


@pytest.fixture
def repeated(monkeypatch):
    """Names of the kernels that the fast path launches."""
    launches, plans, run = [], [], launch.run
    monkeypatch.setattr(
        launch, "run", lambda plan, tensors: plans.append(plan) or run(plan, tensors)
    )

    def shortest_launch(compiled, programs, arguments, unkeyed):
        plan = plans[-1]
        kernel = kernel_of(plan)

        def launch_again(tensors):
            launches.append(plan.kernel)
            kernel[(programs,)](*tensors, **arguments, num_warps=1)
            return True

        return launch_again

    monkeypatch.setattr(fastpath, "shortest_launch", shortest_launch)
    monkeypatch.setattr(fastpath, "ENABLED", True)
    fastpath.forget()
    yield launches
    fastpath.forget()


FORWARD, BACKWARD = "norm_rope_kernel", "norm_rope_backward_kernel"


def sample(tensor_format, device, heads=(3, 1), weights=True):
    tensors = [torch.randn(shape_of(tensor_format, S, B, h, D), device=device) for h in heads]
    given = [torch.randn(D, device=device) if weights else None for _ in heads]
    options = {}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, 4, 9], device=device)
    return tensors, given, options


@each_pair
@pytest.mark.parametrize("weights", (False, True))
@pytest.mark.parametrize("freqs", ("on the fly", "angles"))
@pytest.mark.parametrize("heads", ((3,), (3, 1)))
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_values_and_gradients_of_later_calls(
    tensor_format, heads, freqs, weights, repeated, device
):
    """New tensors each time, the same signature: values and all gradients are theirs."""
    rope = RotaryPositionEmbedding(D).to(device)
    for step in range(3):
        tensors, given, options = sample(tensor_format, device, heads, weights)
        table = rope if freqs == "on the fly" else angles(S * B, D, device)
        repeated.clear()
        check(tensors, given, table, tensor_format, **options)
        assert repeated[:2] == ([FORWARD, BACKWARD] if step else [])


OTHERS = {  # what changes after two calls -> a call with it
    "eps": {"eps": 1e-2},
    "weight_offset": {"weight_offset": 1.0},
    "norm_after": {"norm_after": True},
    "rounding": {"rounding": "model"},
    "cast last": {"rounding": "model_cast_last"},
    "interleaved": {"freqs": "interleaved", "interleaved": True},
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_option_is_another_signature(name, repeated, device):
    options = dict(OTHERS[name])
    plain = RotaryPositionEmbedding(D).to(device)
    other = RotaryPositionEmbedding(D, interleaved="freqs" in options).to(device)
    options.pop("freqs", None)
    (t,), (weight,), _ = sample("sbhd", device, (3,))
    for _ in range(2):
        norm_rope(t, weight, plain)
    repeated.clear()
    got = norm_rope(t, weight, other, **options)
    assert repeated == []
    torch.testing.assert_close(got, norm_rope(t, weight, other, fused=False, **options))


@pytest.mark.parametrize("argument", ({"eps": True}, {"eps": 0 == 1}, {"norm_after": 0}))
def test_a_bool_is_no_number_on_the_fast_path_either(argument, repeated, device):
    (t,), (weight,), _ = sample("sbhd", device, (3,))
    rope = RotaryPositionEmbedding(D).to(device)
    for eps in (0.0, 1.0, 0.0, 1.0):
        norm_rope(t, weight, rope, eps=eps)
    with pytest.raises(TypeError, match=r"^(eps|norm_after) is"):
        norm_rope(t, weight, rope, **argument)


def test_gradients_come_and_go(repeated, device):
    (t,), (weight,), _ = sample("sbhd", device, (3,))
    rope = RotaryPositionEmbedding(D).to(device)
    leaf = weight.clone().requires_grad_()
    for given, records in ((weight, False), (leaf, True)) * 2:
        assert norm_rope(t, given, rope).requires_grad == records
    table = angles(S, D, device)
    for records in (False, False, True):  # the table's is plain PyTorch's
        out = norm_rope(t, weight, table.requires_grad_(records))
        assert out.requires_grad == records


def test_wishes_for_gradients_come_and_go(repeated, device):
    """Of the input alone, of the weight too, of the weight alone."""
    (t,), (weight,), _ = sample("sbhd", device, (3,))
    rope = RotaryPositionEmbedding(D).to(device)
    for wanted in ((True, False), (True, True), (False, True)) * 2:
        leaves = [x.requires_grad_(y) for x, y in zip((t, weight), wanted, strict=True)]
        leaves = [x for x in leaves if x.requires_grad]
        outs = [norm_rope(t, weight, rope, fused=fused) for fused in (True, False)]
        got, want = (torch.autograd.grad(out.square().sum(), leaves) for out in outs)
        torch.testing.assert_close(got, want)


def test_a_weight_that_is_copied_is_not_remembered(repeated, device):
    """Its copy has another address in the next call."""
    rope = RotaryPositionEmbedding(D).to(device)
    for _ in range(3):
        (t,), _, _ = sample("sbhd", device, (3,))
        weight = torch.randn(2 * D, device=device)[::2]
        got = norm_rope(t, weight, rope)
        torch.testing.assert_close(got, norm_rope(t, weight, rope, fused=False))
    assert repeated == []


def test_weights_of_two_kinds_take_two_launches(repeated, device):
    rope = RotaryPositionEmbedding(D).to(device)
    for step in range(2):
        (q, k), (weight, _), _ = sample("sbhd", device)
        outs = qk_norm_rope(q, k, weight, None, rope)
        assert repeated == [FORWARD, FORWARD] * step
        torch.testing.assert_close(outs, qk_norm_rope(q, k, weight, None, rope, fused=False))


def test_saved_tensors_that_come_back_elsewhere(repeated, device):
    """As after offloading: with other strides, so by another launch."""
    rope = RotaryPositionEmbedding(D).to(device)

    def unpack(x):
        return x.mT.contiguous().mT if x.dim() == 4 else x

    for hooked in (False, False, True, True):
        leaves = [x.requires_grad_() for x in (*sample("sbhd", device)[0],)]
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda x: x, unpack if hooked else lambda x: x
        )
        with hooks:
            outs = qk_norm_rope(*leaves, None, None, rope)
        grads = [torch.randn_like(out) for out in outs]
        got = torch.autograd.grad(outs, leaves, grads)
        outs = qk_norm_rope(*leaves, None, None, rope, fused=False)
        torch.testing.assert_close(got, torch.autograd.grad(outs, leaves, grads))
