"""Plain PyTorch, which is the definition: TransformerEngine's bits, and what it costs."""

from itertools import pairwise

import pytest
import torch

from counted import operators_of
from inputs import FORMATS, angles, contiguous, sequence_starts, shape_of
from pairwise import cover
from rope_kernels import apply_rotary_pos_emb, rotate_half

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
S, B, H, D, D2 = 7, 2, 3, 20, 12

PAIRINGS = {"halves": False, "interleaved": True}


# rotate_half


def test_rotate_half_swaps_the_members_of_pairs_and_negates_the_first(device):
    """And leaves its input alone."""
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], device=device)
    before = x.clone()
    assert rotate_half(x).tolist() == [[-3.0, -4.0, 1.0, 2.0], [-7.0, -8.0, 5.0, 6.0]]
    want = [[-2.0, 1.0, -4.0, 3.0], [-6.0, 5.0, -8.0, 7.0]]
    assert rotate_half(x, interleaved=True).tolist() == want
    for interleaved in (False, True):
        rotate_half(x, interleaved)[:] = 0
        assert torch.equal(x, before)


@pytest.mark.parametrize("shape", ((2, 5), (1,), ()), ids=str)
def test_rotate_half_refuses_what_has_no_two_halves(shape, device):
    for interleaved in (False, True):
        with pytest.raises(ValueError, match=r"^x has shape \(.*\); accepted: an even last dim"):
            rotate_half(torch.zeros(shape, device=device), interleaved)


def test_rotate_half_refuses_what_is_no_tensor_or_no_flag():
    with pytest.raises(TypeError, match=r"^x is of type list; accepted: torch\.Tensor"):
        rotate_half([1.0, 2.0])
    for dtype in (torch.bool, torch.uint8, torch.uint32, torch.float8_e4m3fn):
        with pytest.raises(
            TypeError, match=rf"^x has dtype {str(dtype)[6:]}; accepted: float32, .*int8, "
        ):
            rotate_half(torch.zeros(2).to(dtype))
    with pytest.raises(TypeError, match=r"^interleaved is 1; accepted: False, True"):
        rotate_half(torch.zeros(2), 1)


# what is not fused


def transformer_engine_unfused(t, freqs, interleaved=False):
    """TransformerEngine's `_apply_rotary_pos_emb_base`, for sbhd."""
    freqs = freqs[: t.shape[0]]
    cos, sin = torch.cos(freqs).to(t.dtype), torch.sin(freqs).to(t.dtype)
    t, t_pass = t[..., : freqs.shape[-1]], t[..., freqs.shape[-1] :]
    if interleaved:
        x1, x2 = t[..., ::2], t[..., 1::2]
        turned = torch.stack((-x2, x1), dim=-1).view(t.shape)
    else:
        x1, x2 = t.reshape(*t.shape[:-1], 2, t.shape[-1] // 2).unbind(dim=-2)
        turned = torch.cat((-x2, x1), dim=-1)
    t = (t * cos) + (turned * sin)
    return torch.cat((t, t_pass), dim=-1)


@cover(tensor_format=FORMATS, rotary_dim=(D, D2), dtype=DTYPES[:3], interleaved=PAIRINGS)
def test_unfused_is_transformer_engines_bit_for_bit(
    tensor_format, rotary_dim, dtype, interleaved, device
):
    t = contiguous(shape_of(tensor_format, S, B, H, D), dtype, device)
    cu_seqlens = sequence_starts(tensor_format, S, B, device)
    freqs = angles(S * B, rotary_dim, device)
    options = {"interleaved": interleaved, "fused": False}
    got = apply_rotary_pos_emb(t, freqs, tensor_format, cu_seqlens=cu_seqlens, **options)
    if tensor_format == "thd":
        ends = cu_seqlens.tolist()
        for start, end in pairwise(ends):
            want = transformer_engine_unfused(t[start:end, None], freqs, interleaved).squeeze(1)
            assert torch.equal(got[start:end], want)
        assert torch.equal(got[ends[-1] :], t[ends[-1] :])
    else:
        to_sbhd = [tensor_format.index(letter) for letter in "sbhd"]
        want = transformer_engine_unfused(t.permute(to_sbhd), freqs, interleaved)
        assert torch.equal(got.permute(to_sbhd), want)
        # there a loop over the batch takes the rows from each start on
        options["start_positions"] = torch.tensor([4, 1], device=device)
        got = apply_rotary_pos_emb(t, freqs, tensor_format, **options)
        for entry, start in enumerate((4, 1)):
            one = t.permute(to_sbhd)[:, entry : entry + 1]
            want = transformer_engine_unfused(one, freqs[start:], interleaved)
            assert torch.equal(got.permute(to_sbhd)[:, entry : entry + 1], want)


def test_cos_and_sin_are_rounded_first_where_it_is_not_rounded_once(device):
    """So a table of fp32 and the same, rounded, mean the same; and do not, rounded once."""
    t = contiguous((S, B, H, D), torch.bfloat16, device)
    table = torch.randn(2, S, D2, device=device)
    fine, coarse = tuple(table), tuple(table.bfloat16())
    for rounding in ({}, {"rounding": "once"}):
        one, other = (
            apply_rotary_pos_emb(t, freqs, "sbhd", rotary_dim=D2, fused=False, **rounding)
            for freqs in (fine, coarse)
        )
        assert torch.equal(one, other) is not bool(rounding)


@pytest.mark.parametrize("rotary_dim", (D, D2))
def test_the_backward_takes_six_kernels_as_notebook_06_says(rotary_dim, device):
    """With `tensor_split` in place of `split` it took ten."""
    t = contiguous((S, B, H, D), torch.float32, device).requires_grad_()
    out = apply_rotary_pos_emb(t, angles(S, rotary_dim, device), fused=False)
    grad = torch.randn_like(out)
    names = operators_of(lambda: torch.autograd.grad(out, t, grad))
    kernels = [name for name in names if name not in ("permute", "slice")]
    assert kernels == ["mul", "neg", "cat", "mul", "add", "cat"]
