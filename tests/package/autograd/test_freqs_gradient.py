"""The gradient of freqs: tokens that have no angle, dtypes, and one of cosines and sines alone.

Its values are an axis of `test_ops.py`; transforms and second derivatives are in
`test_ops_traced.py`.
"""

import pytest
import torch

from inputs import contiguous, shape_of, transposed
from rope_kernels import apply_rotary_pos_emb
from test_positions import values_are_not_read  # noqa: F401 (a fixture)
from yardstick import rotate_fp64

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
S, B, H, D, D2 = 5, 3, 3, 9, 6  # no stride is divided by 16: formats share compiled kernels
S2 = 60

SHAPES = {  # of each table, by kind; where there is one, the tables are angles
    "angles": [(S2, 1, 1, D2)],
    "cos, sin": 2 * [(S2, D2)],
    "entries": 2 * [(B, S2, D2)],
}


def tables(kind, device, dtype=torch.float64):
    """Leaves, in which both members of a pair differ."""
    return [
        torch.randn(shape, device=device, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in SHAPES[kind]
    ]


def as_freqs(leaves):
    return leaves[0] if len(leaves) == 1 else tuple(leaves)


def tensor(tensor_format, device, dtype=torch.float64):
    t = contiguous(shape_of(tensor_format, S, B, H, D), dtype, device)
    return t.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()


def expected(t, leaves, tensor_format, grad, **options):
    """Gradients of t and of the tables, by PyTorch's own autograd through the fp64 definition."""
    exact = [x.detach().double().requires_grad_() for x in (t, *leaves)]
    out = rotate_fp64(exact[0], as_freqs(exact[1:]), tensor_format, **options)
    return torch.autograd.grad(out, exact, grad.double())


def assert_close(got, want, computed=torch.float64):
    """But for the roundings of `got`'s dtype, and of the sum over heads and positions."""
    exact = got.dtype == computed == torch.float64
    few = 1e-12 if exact else max(1e-5, 1.01 * torch.finfo(got.dtype).eps)
    torch.testing.assert_close(got.double(), want, rtol=few, atol=few * (1 + want.abs().max()))


def test_tokens_of_no_sequence_give_nothing_even_if_not_finite(device):
    """Nor their gradient: what lies in the padding of a packed batch is anybody's guess."""
    (freqs,) = tables("angles", device)
    t, cu_seqlens = tensor("thd", device).detach(), torch.tensor([0, 4, 11], device=device)
    grad = torch.randn_like(t)
    want = expected(t, [freqs], "thd", grad, cu_seqlens=cu_seqlens)[1]
    t[12:], grad[13:] = float("nan"), float("inf")
    out = apply_rotary_pos_emb(t, freqs, "thd", cu_seqlens=cu_seqlens)
    assert_close(torch.autograd.grad(out, freqs, grad)[0], want)


def test_tokens_past_the_table_give_nothing(values_are_not_read, device):  # noqa: F811
    t, leaves = tensor("bshd", device), tables("entries", device)
    ids = torch.tensor([[0, S2, 3, -1, 3]], device=device).expand(B, S)
    out = apply_rotary_pos_emb(t, as_freqs(leaves), "bshd", position_ids=ids, rotary_dim=D2)
    grad = torch.randn_like(out)
    inside = [0, 2, 4]
    want = expected(t[:, inside], leaves, "bshd", grad[:, inside], position_ids=ids[:, inside])
    for got, exact in zip(torch.autograd.grad(out, leaves, grad), want[1:], strict=True):
        assert_close(got, exact)


@pytest.mark.parametrize(
    "dtype,of_table", [*zip(DTYPES, (*DTYPES[2:], *DTYPES[:2]), strict=True)], ids=str
)
def test_its_dtype_is_the_tables(dtype, of_table, device):
    """And it is summed in fp32, or fp64, and rounded once, whatever the dtype of t."""
    t, leaves = tensor("sbhd", device, dtype), tables("cos, sin", device, of_table)
    grad = transposed(t.shape, dtype, device)
    out = apply_rotary_pos_emb(t, as_freqs(leaves), "sbhd", rotary_dim=D2)
    _, *want = expected(t, leaves, "sbhd", grad)
    for got, exact in zip(torch.autograd.grad(out, leaves, grad), want, strict=True):
        assert got.dtype == of_table
        assert_close(got, exact, computed=dtype)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.usefixtures("needs_triton")
def test_a_row_of_a_table_adds_thousands_of_tokens_up_in_fp32(dtype, device):
    """bf16 itself counts no further than 256, be it tokens or heads."""
    count, heads = 700, 3
    t = torch.ones(count, heads, 2, device=device, dtype=dtype)
    cos = torch.ones(2, 2, device=device, dtype=dtype).requires_grad_()
    starts = torch.arange(count + 1, device=device)
    out = apply_rotary_pos_emb(t, (cos, torch.zeros_like(cos)), "thd", cu_seqlens=starts)
    (got,) = torch.autograd.grad(out, cos, torch.ones_like(out))
    want = torch.full((2,), count * heads, device=device, dtype=torch.float32)
    assert torch.equal(got[0], want.to(dtype)) and not got[1].any()
