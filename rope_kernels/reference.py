"""RoPE in plain PyTorch: readable, on any device, in every dtype. The yardstick for the kernel."""

import torch
from torch import Tensor

from .angles import Angles
from .checks import check_arguments, check_last_dim_is_even
from .formats import view_as_sbhd, view_from_sbhd


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1).

    Args:
        x: any shape (..., d2) with even d2; any dtype that has negative numbers.
        interleaved: x1 and x2 are neighbours, elements 2i and 2i + 1, instead of i and i + d2/2.

    Returns:
        A new tensor like `x`. Applied twice it gives -x.

    Raises:
        TypeError: `x` is no tensor.
        ValueError: the last dimension is odd.

    Source: TransformerEngine's `_rotate_half`; the quarter turn in RoFormer, equation (34).
    """
    check_last_dim_is_even(x)
    return _quarter_turn(x, interleaved)


def _quarter_turn(x: Tensor, interleaved: bool) -> Tensor:
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(
    t: Tensor, freqs, tensor_format="sbhd", *, round_once=False, transpose=False, **options
) -> Tensor:
    """`rope_kernels.apply_rotary_pos_emb`, which has the arguments and errors, in PyTorch.

    `round_once` False rounds cos and sin to `t.dtype` and computes in it, as TransformerEngine's
    unfused function does; True computes in fp32 (fp64 for fp64) and rounds once, as the kernel
    does. `transpose` applies the transposed linear map, which takes gradients back.
    """
    return rotate(
        t, check_arguments({"t": t}, freqs, tensor_format, **options), round_once, transpose
    )


def rotate(t: Tensor, angles: Angles, round_once: bool, transpose: bool) -> Tensor:
    """Rotate a checked tensor; differentiable in it and in the table, as often as you like."""
    x = view_as_sbhd(t, angles.tensor_format)
    dtype = _compute_dtype(t)
    cos, sin, in_sequence = angles.cos_sin(x.shape[0], dtype)
    cos, sin = (v.transpose(0, 1)[:, :, None] for v in (cos, sin))  # (s, b or 1, 1, d2)

    rotary, tail = x.split((angles.rotary_dim, x.shape[-1] - angles.rotary_dim), dim=-1)
    if in_sequence is not None:
        in_sequence = in_sequence.view(-1, 1, 1, 1)
        rotary = torch.where(in_sequence, rotary, 0)  # padding may hold anything, NaN too
    if round_once:
        rotary = rotary.to(dtype)
    else:
        cos, sin = cos.to(t.dtype), sin.to(t.dtype)
    if transpose:
        # the transpose of a quarter turn is its negative
        rotated = rotary * cos - _quarter_turn(rotary * sin, angles.interleaved)
    else:
        rotated = rotary * cos + _quarter_turn(rotary, angles.interleaved) * sin
    rotated = torch.cat((rotated.to(t.dtype), tail), dim=-1)
    if in_sequence is not None:
        rotated = torch.where(in_sequence, rotated, x)
    return view_from_sbhd(rotated, angles.tensor_format).contiguous()


def table_gradients(pairs: list[tuple[Tensor, Tensor]], angles: Angles) -> tuple[Tensor, Tensor]:
    """Gradients of a table's cosines and sines, from each `t` and the gradient of what it became.

    Cosines were multiplied by `t`, sines by `rotate_half(t)`; the sum is over all heads alike.
    """
    total = 0
    for t, grad in pairs:
        dtype, views = _compute_dtype(t), (view_as_sbhd(x, angles.tensor_format) for x in (t, grad))
        x, g = (view.narrow(-1, 0, angles.rotary_dim).to(dtype) for view in views)
        factors = x, _quarter_turn(x, angles.interleaved)
        total = total + torch.cat([(g * factor).sum(2) for factor in factors], -1)
    rows = total.transpose(0, 1) if angles.per_batch else total.sum(1)[None]
    of_cos, of_sin = angles.add_rows(rows).chunk(2, -1)
    return of_cos.reshape(angles.table.shape), of_sin.reshape(angles.table.shape)


def _compute_dtype(t: Tensor) -> torch.dtype:
    return torch.float64 if t.dtype == torch.float64 else torch.float32
