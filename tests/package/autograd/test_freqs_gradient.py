"""The gradient of freqs: tokens that have no angle, and sums of thousands of tokens.

Its values are an axis of `test_ops.py`; transforms and second derivatives are in
`test_ops_traced.py`.
"""

import pytest
import torch

from inputs import angles
from rope_kernels import apply_rotary_pos_emb
from test_positions import values_are_not_read  # noqa: F401 (a fixture)
from yardstick import rotate_fp64

FP64 = torch.float64


def assert_same_gradients(leaves, out, grad, want, grad_of_want):
    found = torch.autograd.grad(out, leaves, grad)
    torch.testing.assert_close(found, torch.autograd.grad(want, leaves, grad_of_want))


def test_tokens_of_no_sequence_give_nothing_even_if_not_finite(device):
    """Nor their gradient: what lies in the padding of a packed batch is anybody's guess."""
    freqs = angles(60, 6, device, FP64).requires_grad_()
    starts = torch.tensor([0, 4, 11], device=device)
    t, grad = torch.randn(2, 15, 3, 9, device=device, dtype=FP64)
    want, grad_of_want = rotate_fp64(t.clone(), freqs, "thd", starts), grad.clone()
    t[12:], grad[13:] = float("nan"), float("inf")
    out = apply_rotary_pos_emb(t, freqs, "thd", cu_seqlens=starts)
    assert_same_gradients([freqs], out, grad, want, grad_of_want)


def test_tokens_past_the_table_give_nothing(values_are_not_read, device):  # noqa: F811
    tables = [torch.randn(3, 60, 6, device=device, dtype=FP64).requires_grad_() for _ in "12"]
    ids, inside = torch.tensor([[0, 60, 3, -1, 3]], device=device).expand(3, 5), [0, 2, 4]
    t, grad = torch.randn(2, 3, 5, 3, 9, device=device, dtype=FP64)
    out = apply_rotary_pos_emb(t, tables, "bshd", position_ids=ids, rotary_dim=6)
    want = rotate_fp64(t[:, inside], tables, "bshd", position_ids=ids[:, inside])
    assert_same_gradients(tables, out, grad, want, grad[:, inside])


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
