"""On a GPU a public call queues one kernel a direction: no second one, no memcpy, no memset.

quack's tests ask that of its rotary. Layouts of memory are in `test_counts.py`.
"""

import pytest
import torch

import rope_kernels as rope
from inputs import FORMATS, angles, contiguous, packed_qkv, sequence_starts, shape_of, transposed
from rope_kernels.launch import fastpath
from test_counts import OURS, kernels_of

pytestmark = pytest.mark.gpu
S, B, H, D, S2 = 32, 2, 4, 64, 128  # the tables have S2 positions


def queued_by(call):
    """Names of kernels, memcpys and memsets of a call, after one that compiles."""
    call()
    names = kernels_of(call)
    memcpys, memsets = ([x for x in names if x.startswith(y)] for y in ("Memcpy", "Memset"))
    return [x for x in names if x not in memcpys + memsets], memcpys, memsets


def assert_one_kernel(call):
    kernels, memcpys, memsets = queued_by(call)
    assert [name in OURS for name in kernels] == [True], kernels
    assert memcpys == memsets == []


def case(function, tensor_format="sbhd", freqs=None, layout=contiguous, **options):
    """Makes a function of the tensors to rotate, which returns a tuple, and those tensors."""

    def make():
        heads = (H, 1) if function is rope.rope_qk else (H,)
        shapes = [shape_of(tensor_format, S, B, h, D) for h in heads]
        given = {name: x() if callable(x) else x for name, x in options.items()}
        given["cu_seqlens"] = sequence_starts(tensor_format, S, B, "cuda")
        table = angles(S2, D, "cuda") if freqs is None else freqs()

        def rotate(*tensors):
            outs = function(*tensors, table, tensor_format, **given)
            return outs if isinstance(outs, tuple) else (outs,)

        return rotate, [layout(shape, torch.bfloat16, "cuda") for shape in shapes]

    return make


def cases_of(f):
    """The options of a public function."""
    return {
        **{tensor_format: case(f, tensor_format) for tensor_format in FORMATS},
        "(cos, sin)": case(f, freqs=lambda: tuple(torch.randn(2, S2, D, device="cuda"))),
        "on the fly": case(f, freqs=lambda: rope.RotaryPositionEmbedding(D).cuda()),
        "an angle a pair": case(f, freqs=lambda: angles(S2, D // 2, "cuda"), rotary_dim=D),
        "rotary_start": case(f, freqs=lambda: angles(S2, D // 2, "cuda"), rotary_start=D // 2),
        "view of a packed qkv": case(f, "bshd", layout=packed_qkv),
        "start_positions": case(f, start_positions=lambda: torch.arange(B, device="cuda")),
        "position_ids": case(f, position_ids=lambda: torch.randint(S, (B, S), device="cuda")),
        "cp_size 2": case(f, cp_size=2, cp_rank=1),
        "in place": case(f, inplace=True),
    }


FUNCTIONS = (rope.rope_fw, rope.rope_bw, rope.apply_rotary_pos_emb, rope.rope_qk)
CALLS = {f"{f.__name__}, {name}": make for f in FUNCTIONS for name, make in cases_of(f).items()}
# not in place, where a leaf would have to be copied first
DIFFERENTIABLE = [x for x in CALLS if x.startswith(("apply", "rope_qk")) and "in place" not in x]
COMPILED = [name for name in DIFFERENTIABLE if name.endswith(("bshd", "qkv", "start_positions"))]
GRADIENTS = {
    "contiguous": torch.randn_like,
    "transposed": lambda out: transposed(out.shape, out.dtype, out.device),
    "expanded": lambda out: out.new_ones(()).expand_as(out),  # as the gradient of a sum arrives
}


def leaves_of(name):
    rotate, tensors = CALLS[name]()
    return rotate, [t.detach().requires_grad_() for t in tensors]


def assert_one_kernel_a_direction(rotate, leaves, gradient=torch.randn_like):
    assert_one_kernel(lambda: rotate(*leaves))
    graphs = [rotate(*leaves) for _ in range(2)]  # one to compile the backward, one to count
    grads = [gradient(out) for out in graphs[0]]
    assert_one_kernel(lambda: torch.autograd.grad(graphs.pop(), leaves, grads))


@pytest.mark.parametrize("fast", (True, False), ids=("fast path", "Triton's JIT"))
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_one_kernel(name, fast, monkeypatch):
    monkeypatch.setattr(fastpath, "ENABLED", fast)
    rotate, tensors = CALLS[name]()
    assert_one_kernel(lambda: rotate(*tensors))


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_autograd_adds_one_kernel(name, gradient):
    assert_one_kernel_a_direction(*leaves_of(name), GRADIENTS[gradient])


@pytest.mark.parametrize("name", COMPILED)
def test_torch_compile_queues_the_same_kernel(name):
    torch._dynamo.reset()
    rotate, leaves = leaves_of(name)
    compiled = torch.compile(rotate, fullgraph=True)
    with torch.no_grad():
        assert queued_by(lambda: compiled(*leaves)) == queued_by(lambda: rotate(*leaves))
    assert_one_kernel_a_direction(compiled, leaves)


def test_other_kernels_and_copies_are_seen():
    """So that the tests above can fail."""
    x, y = torch.randn(2, 1024, device="cuda")
    assert [len(names) for names in queued_by(lambda: x * 2 + 1)] == [2, 0, 0]
    assert [len(names) for names in queued_by(lambda: y.copy_(x))] == [0, 1, 0]
