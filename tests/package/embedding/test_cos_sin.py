"""`cos_sin`: tables of one column per pair, at any positions, whole or not.

docs/positions.md makes a table of several axes of them, and `test_readme.py` runs it.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from rope_kernels import RotaryPositionEmbedding, rope_qk

B, D2 = 2, 8


def cos_sin_fp64(rope, positions):
    """By the definition, of positions with one dimension more, of one entry or of one a pair."""
    angle = positions.double() * rope.inv_freq.double()
    return angle.cos(), angle.sin()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64), ids=str)
@pytest.mark.parametrize(
    "positions",
    (
        torch.tensor(7),
        torch.arange(-3, 4),
        torch.arange(200, 256).byte(),
        torch.randint(0, 10**9, (2, 5)).int(),
        torch.randint(-(10**6), 10**6, (3, 2, 5)),
        torch.rand(3, 1, 5) * 2 - 1,
        torch.rand(2, 5, dtype=torch.float64),
    ),
    ids=lambda x: f"{str(x.dtype)[6:]} {x.dim()}",
)
def test_tables_at_positions(positions, dtype):
    rope = RotaryPositionEmbedding(D2, attention_factor=1.5)
    want = cos_sin_fp64(rope, positions[..., None])
    for got, exact in zip(rope.cos_sin(positions, dtype), want, strict=True):
        assert got.dtype == dtype and got.shape == (*positions.shape, D2 // 2)
        eps = max(torch.finfo(dtype).eps, 1e-7 if positions.abs().max() > 100 else 0)
        torch.testing.assert_close(got.double(), 1.5 * exact, rtol=eps, atol=2 * eps)


@pytest.mark.parametrize("count", (0, 11, np.int64(11)), ids=repr)
def test_a_number_stands_for_so_many_positions(count):
    rope = RotaryPositionEmbedding(D2)
    for got, want in zip(rope.cos_sin(count), rope.cos_sin(torch.arange(int(count))), strict=True):
        assert torch.equal(got, want)


def test_float_positions_have_gradients(device):
    """They flow through the table, to positions and to frequencies that are trained."""
    rope = RotaryPositionEmbedding(D2).to(device)
    rope.inv_freq = nn.Parameter(rope.inv_freq.double())
    ids = torch.rand(B, 3, dtype=torch.float64, device=device, requires_grad=True)
    t = torch.randn(B, 3, 2, D2, dtype=torch.float64, device=device)

    def rotated(ids):
        freqs = rope.cos_sin(ids, torch.float64)
        return rope_qk(t, t, freqs, "bshd", rotary_dim=D2)[0]

    assert torch.autograd.gradcheck(rotated, ids)
    rotated(ids).sum().backward()
    assert rope.inv_freq.grad.abs().min() > 0
    cos, _ = rope.cos_sin(ids.long() + 1)
    assert torch.autograd.grad(cos.sum(), rope.inv_freq)[0].abs().min() > 0


def test_frequencies_have_a_derivative_in_forward_mode_also_without_gradients(device):
    rope, ids = RotaryPositionEmbedding(D2).to(device), torch.arange(1, 4, device=device)
    inv_freq, tangent = rope.inv_freq, torch.rand(D2 // 2, device=device)
    with torch.no_grad(), forward_ad.dual_level():
        rope._buffers["inv_freq"] = forward_ad.make_dual(inv_freq, tangent)
        got = forward_ad.unpack_dual(rope.cos_sin(ids)[1]).tangent
    want = (ids[:, None] * inv_freq).cos() * ids[:, None] * tangent
    torch.testing.assert_close(got, want)
