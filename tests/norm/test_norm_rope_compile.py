"""`norm_rope` under torch.compile, in CUDA graphs, and counted: few kernels, the same bits always.

Under a trace a norm is plain PyTorch, which a compiler fuses. Traced with derivatives and all
(`aot_eager`), which needs no compiler; on a GPU by Inductor too.
"""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from inputs import FORMATS, angles, packed_qkv, sequence_starts, shape_of
from norm_yardstick import check, norm_rope_fp64, outs_and_grads
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope
from rope_kernels.launch import kernel_plans
from test_compile import (
    DTYPE,
    LENGTHS,
    assert_same_bits,
    capture,
    compiled,
    freqs_of,
    positions_of,
    run,
)
from test_compile import nothing_compiled_before as nothing_compiled_before  # a fixture
from test_counts import queued_by

S, B, D, D2 = 4, 2, 10, 6
CASES = (  # of each format: freqs, positions, and options of the norm
    ("sbhd", "angles", "starts", {"weight_offset": 1.0, "interleaved": True}),
    ("bshd", "(cos, sin)", "ids", {"rounding": "model"}),
    ("bhsd", "on the fly", "a rank, by turns", {"norm_after": True, "eps": 1e-3}),
    ("thd", "angles", "from 0", {}),
)


def assert_close(got, want):
    """But for a few roundings: PyTorch fuses no products, and adds squares in another order."""
    for x, y in zip(got, want, strict=True):
        eps = 4 * torch.finfo(y.dtype).eps
        torch.testing.assert_close(x, y, rtol=eps, atol=eps * float(y.detach().abs().max()))


@pytest.mark.parametrize("inplace", (False, True), ids=("with gradients", "in place"))
@pytest.mark.parametrize("tensor_format, freqs, positions, options", CASES)
def test_the_values_and_gradients_of_eager_in_one_graph(
    tensor_format, freqs, positions, options, inplace, device
):
    freqs = freqs_of(freqs, options.get("interleaved", False), device)
    options = options | positions_of(positions, tensor_format, device) | {"inplace": inplace}

    def rotate(*leaves):
        return qk_norm_rope(*leaves, freqs, tensor_format, **options)

    function, counter = compiled(rotate)
    shapes = *(shape_of(tensor_format, S, B, h, D) for h in (3, 1)), (D,), (D,)
    for _ in range(2):
        leaves = [torch.randn(shape, device=device).to(DTYPE[tensor_format]) for shape in shapes]
        grads = [] if inplace else [torch.randn_like(t) for t in leaves[:2]]
        leaves = [x.requires_grad_(not inplace) for x in leaves]
        assert_close(run(function, leaves, grads), run(rotate, leaves, grads))
    assert counter.frame_count == 1


def test_a_trace_has_no_operator_of_ours(device):
    """Traced without a gradient, it has one."""
    rope, weight = RotaryPositionEmbedding(D).to(device), torch.randn(D, device=device)
    t = torch.randn(S, B, 3, D, device=device)
    graph = make_fx(lambda t: norm_rope(t, weight, rope))(t)
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert names and not [name for name in names if "rope_kernels" in name]
    leaf, grad = t.clone().requires_grad_(), torch.randn_like(t)
    got, want = graph(leaf), norm_rope(leaf, weight, rope)
    assert_close([got], [want])
    assert_close(*(torch.autograd.grad(out, leaf, grad) for out in (got, want)))


def test_a_backward_that_is_traced_alone(device):
    """As compiled autograd does it: the forward was eager, by the kernel."""
    rope, found = RotaryPositionEmbedding(D).to(device), []
    for traced in (False, True):
        torch.manual_seed(0)
        leaves = [torch.randn(S, B, 3, D, device=device), torch.randn(D, device=device)]
        leaves = [x.requires_grad_() for x in leaves]
        loss = norm_rope(*leaves, rope).square().sum()
        with torch._dynamo.config.patch(compiled_autograd=traced):
            backward = torch.compile(lambda x: x.backward(), backend="eager")
            backward(loss) if traced else loss.backward()
        found.append([x.grad for x in leaves])
    assert_close(*found)


def test_a_new_length_compiles_no_new_graph(device):
    tensor_format = "thd"
    weight, freqs = torch.randn(D, device=device), angles(40, D2, device)

    def rotate(t, options):
        return norm_rope(t, weight, freqs, tensor_format, **options)

    function, counter = compiled(rotate)
    for s in LENGTHS:
        t = torch.randn(shape_of(tensor_format, s, B, 3, D), device=device)
        options = {"cu_seqlens": sequence_starts(tensor_format, s, B, device)}
        assert_close([function(t, options)], [rotate(t, options)])
    assert 1 <= counter.frame_count <= 2


# on a GPU: counted, captured, repeated


def qk(tensor_format="sbhd", layout=None, dtype=torch.bfloat16, s=64, d=128, **options):
    """Queries, keys, weights, a table, and a function of the first four."""
    shapes = [shape_of(tensor_format, s, 2, h, d) for h in (8, 2)]
    make = layout or (lambda shape, dtype, device: torch.randn(shape, dtype=dtype, device=device))
    leaves = [make(shape, dtype, "cuda") for shape in shapes]
    leaves += [torch.randn(d, device="cuda", dtype=dtype) for _ in "qk"]
    leaves = [x.detach().requires_grad_() for x in leaves]
    freqs = angles(2 * s, d, "cuda")
    options["cu_seqlens"] = sequence_starts(tensor_format, s, 2, "cuda")
    return leaves, lambda *leaves: qk_norm_rope(*leaves, freqs, tensor_format, **options)


OURS = [kernel_plans.FORWARD, kernel_plans.BACKWARD, kernel_plans.SUM]
COUNTED = {
    **{tensor_format: {"tensor_format": tensor_format} for tensor_format in FORMATS},
    "packed qkv": {"layout": packed_qkv},
    "norm after": {"norm_after": True},
    "model": {"rounding": "model"},
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", COUNTED)
def test_one_kernel_forward_and_two_backward(name):
    leaves, rotate = qk(**COUNTED[name])
    assert queued_by(lambda: rotate(*leaves)) == (OURS[:1], [], [])
    outs = rotate(*leaves)
    grads = [torch.randn_like(out) for out in outs]
    backward = lambda: torch.autograd.grad(outs, leaves, grads, retain_graph=True)  # noqa: E731
    assert queued_by(backward) == (OURS[1:], [], [])


@pytest.mark.gpu
@pytest.mark.parametrize("name", COUNTED)
def test_inductor_fuses_a_norm(name):
    """Fewer kernels than PyTorch's operators, and the values of ours."""
    leaves, rotate = qk(**COUNTED[name])
    function = torch.compile(rotate, fullgraph=True)
    found = []
    for call in (function, rotate):
        outs = call(*leaves)
        grads = [torch.ones_like(out) for out in outs]
        found.append([*outs, *torch.autograd.grad(outs, leaves, grads)])
    for got, want in zip(*found, strict=True):
        most = float(want.detach().abs().max())
        torch.testing.assert_close(got, want, rtol=2**-6, atol=2**-6 * most)
    _, plain = qk(**COUNTED[name], fused=False)
    (fused, *_), (each, *_) = (queued_by(lambda f=f: f(*leaves)) for f in (function, plain))
    assert not {*fused} & {*OURS} and len(fused) < len(each)


@pytest.mark.gpu
@pytest.mark.parametrize("norm_after", (False, True))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_gradients_of_weights_are_equal_bit_for_bit_in_100_runs(tensor_format, dtype, norm_after):
    """With atomics no two runs on a GPU agree."""
    leaves, rotate = qk(tensor_format, None, dtype, 1000, norm_after=norm_after)
    outs = rotate(*leaves)
    grads = [torch.randn_like(out) for out in outs]
    first = torch.autograd.grad(outs, leaves, grads, retain_graph=True)
    between = torch.randn(1024, 1024, device="cuda")
    for i in range(100):
        if i % 2:  # other work, so that programs end in another order
            between = between @ between
        assert_same_bits(torch.autograd.grad(outs, leaves, grads, retain_graph=True), first)


@pytest.mark.gpu
@pytest.mark.parametrize("rounding", ("once", "model"))
@pytest.mark.parametrize("tensor_format", ("bshd", "thd"))
def test_a_cuda_graph_of_forward_and_backward(tensor_format, rounding):
    leaves, rotate = qk(tensor_format, rounding=rounding)
    grads = [torch.randn_like(t) for t in leaves[:2]]

    def step():
        outs = rotate(*leaves)
        return [*outs, *torch.autograd.grad(outs, leaves, grads)]

    graph, results = capture(step)
    for _ in range(3):
        for buffer in (*leaves, *grads):
            buffer.data.normal_()
        graph.replay()
        assert_same_bits(results, step())


@pytest.mark.gpu
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_many_tokens(tensor_format):
    """More tiles than programs: every program of the backward adds up several."""
    tensors = [torch.randn(shape_of(tensor_format, 2000, 2, h, 128), device="cuda") for h in (8, 2)]
    weights = [torch.randn(128, device="cuda") for _ in "qk"]
    options = {"cu_seqlens": sequence_starts(tensor_format, 2000, 2, "cuda")}
    check(tensors, weights, angles(4000, 128, "cuda"), tensor_format, **options)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    """Offsets past 2^31 need 64 bits; the last positions of a large tensor show a wrapped one."""
    s, b, h, d = 8448, 16, 64, 256
    assert s * b * h * d > 2**31
    freqs, weight = angles(s, d, "cuda"), torch.randn(d, device="cuda")
    t = torch.empty(s, b, h, d, device="cuda", dtype=torch.bfloat16).normal_()
    (got,) = outs_and_grads([t], [weight], freqs, "sbhd", [t])
    for part in (slice(0, 8), slice(s - 8, s)):
        want = norm_rope_fp64(t[part], weight, freqs[part])
        torch.testing.assert_close(got["out"][part].double(), want, rtol=4e-3, atol=1e-5)
        (few,) = outs_and_grads([t[part]], [weight], freqs[part], "sbhd", [t[part]])
        assert_same_bits([got["t"][part]], [few["t"]])


def test_another_rank_is_traced_anew():
    """Then sizes are symbols, and a weight is compared with them."""
    rope, weight = RotaryPositionEmbedding(16), torch.ones(16)
    x = torch.randn(4, 2, 2, 16)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def normalize(t, tensor_format, ids):
        return norm_rope(t, weight, rope, tensor_format, position_ids=ids)

    ids = torch.arange(4)
    for given in ((x, "sbhd", ids[None].expand(2, 4)), (x[:, 0], "thd", ids)):
        wanted = norm_rope(given[0], weight, rope, given[1], position_ids=given[2])
        torch.testing.assert_close(normalize(*given), wanted)
