"""RoPE in plain PyTorch: readable, on any device, in every dtype. The yardstick for the kernel."""

import torch
from torch import Tensor

from .angles import Angles
from .checks import bad, check_arguments, check_tensor
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
    check_tensor("x", x)
    if x.dim() == 0 or x.shape[-1] % 2:
        raise bad(f"x has shape {tuple(x.shape)}", "an even last dimension, to have two halves")
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
    angles = check_arguments({"t": t}, freqs, tensor_format, **options)
    return rotate((t,), angles, round_once, transpose)[0]


def rotate(
    tensors: tuple[Tensor, ...], angles: Angles, round_once: bool, transpose: bool
) -> tuple[Tensor, ...]:
    """Rotate checked tensors; differentiable in them and in the table, as often as you like."""
    seq_len = view_as_sbhd(tensors[0], angles.tensor_format).shape[0]
    dtype = torch.float64 if tensors[0].dtype == torch.float64 else torch.float32
    cos, sin, in_sequence = angles.cos_sin(seq_len, dtype)
    cos, sin = (v.transpose(0, 1)[:, :, None] for v in (cos, sin))  # (s, b or 1, 1, d2)
    if not round_once:
        cos, sin = cos.to(tensors[0].dtype), sin.to(tensors[0].dtype)
    outs = []
    for t in tensors:
        x = view_as_sbhd(t, angles.tensor_format)
        rotary, tail = x.split((angles.rotary_dim, x.shape[-1] - angles.rotary_dim), dim=-1)
        if in_sequence is not None:
            in_sequence = in_sequence.view(-1, 1, 1, 1)
            rotary = torch.where(in_sequence, rotary, 0)  # padding may hold anything, NaN too
        rotary = rotary.to(cos.dtype)
        if transpose:
            # the transpose of a quarter turn is its negative
            rotated = rotary * cos - _quarter_turn(rotary * sin, angles.interleaved)
        else:
            rotated = rotary * cos + _quarter_turn(rotary, angles.interleaved) * sin
        rotated = torch.cat((rotated.to(t.dtype), tail), dim=-1)
        if in_sequence is not None:
            rotated = torch.where(in_sequence, rotated, x)
        outs.append(view_from_sbhd(rotated, angles.tensor_format).contiguous())
    return tuple(outs)


def table_gradients(tensors: tuple, grads: tuple, angles: Angles, transpose: bool) -> tuple:
    """Gradients of the table, and of the sines if it has them, from those of what was rotated."""
    tables = [x for x in angles[:2] if x is not None]
    given = [(t, grad) for t, grad in zip(tensors, grads, strict=True) if grad is not None]
    tensors, grads = zip(*given, strict=True)

    def rotated(*tables: Tensor) -> tuple[Tensor, ...]:
        return rotate(tensors, Angles(*tables, *angles[len(tables) :]), True, transpose)

    of_tables = torch.func.vjp(rotated, *tables)[1](grads)
    return of_tables if len(tables) == 2 else (*of_tables, None)
