"""`cos_sin`: tables of one column per pair, at any positions, whole or not, on several axes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from inputs import shape_of
from rope_kernels import RotaryPositionEmbedding, rope_qk
from yardstick import rotate_fp64

S, B, D2 = 5, 2, 8
AXES = [0, 2, 1, 1]  # by which of three axes each pair turns


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


# several axes, as of images: an index into such a table


def on_each_axis(tensor_format, device):
    """Positions of three axes."""
    tokens = (S * B,) if tensor_format == "thd" else (B, S)
    return torch.randint(-(10**6), 10**6, (3, *tokens), device=device)


@pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))
@pytest.mark.parametrize("tensor_format", ("sbhd", "bshd", "bhsd", "thd"))
def test_an_index_makes_the_table_of_several_axes(tensor_format, interleaved, device):
    """As docs/kernels.md shows it; the error says that it does."""
    freqs = RotaryPositionEmbedding(D2, interleaved=interleaved, attention_factor=1.5).to(device)
    position_ids = on_each_axis(tensor_format, device)
    q, k = (torch.randn(shape_of(tensor_format, S, B, h, D2), device=device) for h in (3, 1))
    options = {"tensor_format": tensor_format, "interleaved": interleaved}
    with pytest.raises(ValueError, match=r"^position_ids has shape \(3, "):
        rope_qk(q, k, freqs, position_ids=position_ids, **options)
    axis = torch.tensor(AXES, device=device)
    cos, sin = (x.gather(0, axis.expand(1, *x.shape[1:]))[0] for x in freqs.cos_sin(position_ids))
    assert cos.is_contiguous()  # a kernel reads whole rows
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, S * B], device=device)
    outs = rope_qk(q, k, (cos, sin), rotary_dim=D2, **options)

    by_pair = torch.stack([position_ids[axis] for axis in AXES], -1)
    exact = [1.5 * x for x in cos_sin_fp64(freqs, by_pair)]
    for t, out in zip((q, k), outs, strict=True):
        want = rotate_fp64(t, exact, rotary_dim=D2, **options)
        torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
