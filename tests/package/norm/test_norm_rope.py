"""`qk_norm_rope` with one weight for both, in full tiles, and in place: see `test_ops.py`."""

import pytest
import torch

from inputs import FORMATS
from ops import BF16, FP32, FP64, OPS
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_bw
from rope_kernels.launch import forget
from rope_kernels.norms import launches, norm_rope
from yardstick import assert_near

QK_NORM_ROPE = next(op for op in OPS if op.name == "qk_norm_rope")


def test_the_same_weight_for_q_and_k(device):
    """Its gradient is the sum of both."""
    sample = QK_NORM_ROPE.sample(device)
    leaf = sample.given["q_weight"].requires_grad_()
    exact = leaf.detach().double().requires_grad_()
    outs = sample.call({"k_weight": leaf})
    grads = [torch.randn_like(out) for out in outs]
    (got,) = torch.autograd.grad(outs, leaf, grads)
    outs = sample.defined({**sample.given, "q_weight": exact, "k_weight": exact})
    (want,) = torch.autograd.grad(outs, exact, [grad.double() for grad in grads])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_a_row_that_no_head_has_adds_nothing(device):
    """Most tiles of a backward are full: they have 16 rows only if at most one in 20 is empty."""
    QK_NORM_ROPE.sample(device, heads=(15, 16), s=2).check()


@pytest.fixture
def few_programs(monkeypatch):
    """A backward's programs take many tiles each, as on a GPU that a call fills."""
    forget()  # what is remembered has another number of programs
    monkeypatch.setattr(launches, "count_sms", lambda device: 1)
    yield
    forget()


@cover(
    norm_after=(False, True),
    tensor_format=("bshd", "thd"),
    columns=(None, "one per pair", "as many as turn"),
)
def test_a_program_of_a_backward_takes_tile_after_tile(
    columns, tensor_format, norm_after, device, few_programs
):
    """The next one's rows are in flight, and where they are asked for depends on the angles."""
    case = {"tensor_format": tensor_format, "norm_after": norm_after, "d": 32, "heads": (5, 3)}
    case |= {"freqs": "cos and sin", "columns": columns} if columns else {"freqs": "on the fly"}
    QK_NORM_ROPE.sample(device, **case, s=100).check()


@pytest.mark.parametrize("eps", (0.0, 1e-42, 1e-39))
def test_rows_whose_squares_are_below_the_smallest_normal_number(eps, device):
    """A GPU's rsqrt takes these for 0, where PyTorch's doesn't: rows were NaN or infinite."""
    rope, found = RotaryPositionEmbedding(16).to(device), []
    t, weight, up = 5e-20 * torch.randn(3, 1, 2, 16), torch.randn(16), torch.randn(3, 1, 2, 16)
    for dtype, fused in ((FP32, True), (FP64, False)):
        leaves = [x.to(device, dtype).requires_grad_() for x in (t, weight)]
        out = norm_rope(*leaves, rope, "sbhd", eps=eps, fused=fused)
        found.append([out, *torch.autograd.grad(out, leaves, up.to(out))])
    for got, want in zip(*found, strict=True):
        assert_near(got, want, want.abs().max(), 1e-5)


def test_a_norm_after_a_rotation_of_one_pair(device):
    """One column: Triton 3.6 did not compile the backward."""
    QK_NORM_ROPE.sample(device, d=34, rotary=2, norm_after=True).check()


def test_a_norm_after_a_rotation_is_taken_back_by_the_root_of_what_the_model_rounded(device):
    """Half of the last bits are others if the squares are those of rows before that."""
    t, grad = (torch.randn(5, 2, 3, 64, device=device).bfloat16() for _ in range(2))
    angles = RotaryPositionEmbedding(64).to(device)(5)[:, 0, 0]
    table = angles.cos().bfloat16(), angles.sin().bfloat16()
    options = {"norm_after": True, "rounding": "model"}
    out = norm_rope(t.requires_grad_(), None, table, "sbhd", **options)
    (got,) = torch.autograd.grad(out, t, grad)
    seen = apply_rotary_pos_emb(t.detach(), table, "sbhd", rounding="model").double()
    root = (seen.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    exact = tuple(x.double() for x in table)
    x, grad = apply_rotary_pos_emb(t.detach().double(), exact, "sbhd") * root, grad.double()
    want = rope_bw((grad - x * (grad * x).mean(-1, keepdim=True)) * root, exact, "sbhd")
    assert (got == want.bfloat16()).double().mean() > 0.98


@pytest.mark.gpu
@pytest.mark.parametrize("norm_after", (False, True))
@pytest.mark.parametrize("dtype", (BF16, FP32), ids=str)
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_gradients_of_weights_are_equal_bit_for_bit_in_100_runs(tensor_format, dtype, norm_after):
    """With atomics no two runs on a GPU agree."""
    case = {"tensor_format": tensor_format, "dtype": dtype, "norm_after": norm_after}
    sample = QK_NORM_ROPE.sample("cuda", **case, s=1000, d=128, heads=(8, 2))
    leaves = sample.leaves()
    outs = sample.call(leaves)
    grads = sample.gradients_like(outs)
    first = torch.autograd.grad(outs, [*leaves.values()], grads, retain_graph=True)
    between = torch.randn(1024, 1024, device="cuda")
    for i in range(100):
        if i % 2:  # other work, so that programs end in another order
            between = between @ between
        found = torch.autograd.grad(outs, [*leaves.values()], grads, retain_graph=True)
        assert all(map(torch.equal, found, first))
