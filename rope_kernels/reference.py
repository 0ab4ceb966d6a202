"""RoPE in plain PyTorch: readable, on any device, for every dtype. The yardstick for the kernels.

Half-split pairing, as in TransformerEngine, GPT-NeoX and Hugging Face: element i of the rotary
slice is rotated together with element i + d2/2. (The paper and GPT-J pair neighbours: notebook 02
says more.)
"""

import torch
from torch import Tensor

from .checks import check_arguments, check_last_dim_is_even
from .formats import view_as_sbhd, view_from_sbhd


def rotate_half(x: Tensor) -> Tensor:
    """Return (-x2, x1), where x = (x1, x2) are the two halves of the last dimension.

    Args:
        x: any shape (..., d2) with even d2; any dtype that has negative numbers.

    Returns:
        A new tensor like `x`. Applied twice it gives -x: a quarter turn of every pair.

    Raises:
        TypeError: `x` is no tensor.
        ValueError: the last dimension is odd.

    Source: TransformerEngine's `_rotate_half`; the quarter turn in RoFormer, equation (34).
    """
    check_last_dim_is_even(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Tensor,
    tensor_format: str = "sbhd",
    *,
    cu_seqlens: Tensor | None = None,
    round_once: bool = False,
    transpose: bool = False,
) -> Tensor:
    """Rotate every pair (i, i + d2/2) of `t` by the angle of its position; pass the tail through.

    Differentiable in `t` and `freqs`.

    Args:
        t: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), in the order `tensor_format` says;
            fp32, fp16, bf16 or fp64; any strides.
        freqs: angles in radians, (s2, 1, 1, d2), fp32 (fp64 too with fp64 `t`); even d2 <= d. Dense
            formats need s2 >= s, 'thd' needs s2 >= the longest sequence. The halves may differ: the
            first half of the output uses the first half of the angles, the second the second.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'.
        cu_seqlens: for 'thd', and only there: (b + 1,) int32 or int64, where each packed sequence
            starts, then where the last one ends. Positions restart at 0 in each.
        round_once: False rounds cos and sin to `t.dtype` and computes in it, as TransformerEngine's
            unfused function does. True computes in fp32 (fp64 for fp64 `t`) and rounds the result
            once, as the fused kernels do.
        transpose: apply the transposed linear map, which takes the gradient of the output to the
            gradient of `t`.

    Returns:
        A contiguous tensor like `t`. Tokens past `cu_seqlens[-1]` come out unrotated; a position
        past the table (possible only with `cu_seqlens` on a GPU, whose values are not read) is NaN.

    Raises:
        TypeError, ValueError: see `checks.py`; the message names the argument and what is accepted.

    Source: TransformerEngine's `apply_rotary_pos_emb` (unfused); RoFormer, equation (34).
    """
    check_arguments(t, freqs, tensor_format, cu_seqlens)
    return rotate(t, freqs, tensor_format, cu_seqlens, round_once, transpose)


def rotate(
    t: Tensor,
    freqs: Tensor,
    tensor_format: str,
    cu_seqlens: Tensor | None,
    round_once: bool,
    transpose: bool,
) -> Tensor:
    """`apply_rotary_pos_emb` without its checks."""
    x = view_as_sbhd(t, tensor_format)
    if cu_seqlens is None:
        angles, in_sequence = freqs[: x.shape[0]], None
    else:
        angles, in_sequence = _packed_angles(freqs, cu_seqlens, x.shape[0])
    if t.dtype == torch.float64:
        angles = angles.double()
    cos, sin = angles.cos(), angles.sin()

    rotary, tail = x[..., : freqs.shape[-1]], x[..., freqs.shape[-1] :]
    if round_once:
        rotary = rotary.to(cos.dtype)
    else:
        cos, sin = cos.to(t.dtype), sin.to(t.dtype)

    if transpose:
        # rotate_half is a quarter turn, so its transpose is its negative
        rotated = rotary * cos - rotate_half(rotary * sin)
    else:
        rotated = rotary * cos + rotate_half(rotary) * sin
    rotated = torch.cat((rotated.to(t.dtype), tail), dim=-1)
    if in_sequence is not None:
        rotated = torch.where(in_sequence, rotated, x)
    return view_from_sbhd(rotated, tensor_format).contiguous()


def _packed_angles(freqs: Tensor, cu_seqlens: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Angles (t, 1, 1, d2) of packed tokens, and whether a token is in a sequence (t, 1, 1, 1)."""
    token = torch.arange(tokens, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    in_sequence = token < cu_seqlens[-1]
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    position = token - cu_seqlens[sequence]
    if freqs.shape[0] == 0:
        # no position has an angle, but the indices below need one to point to
        freqs = freqs.new_zeros(1, *freqs.shape[1:])
        past_table = in_sequence
    else:
        past_table = in_sequence & ((position < 0) | (position >= freqs.shape[0]))
    angles = freqs[position.clamp(0, freqs.shape[0] - 1)]
    angles = angles.masked_fill(past_table.view(-1, 1, 1, 1), float("nan"))
    return angles, in_sequence.view(-1, 1, 1, 1)
