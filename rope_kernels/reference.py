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
    views = [view_as_sbhd(t, angles.tensor_format) for t in tensors]
    stored, d2 = tensors[0].dtype, angles.rotary_dim
    dtype = _compute_dtype(tensors[0])
    cos, sin, in_sequence = angles.cos_sin(views[0].shape[0], dtype)
    in_sequence = None if in_sequence is None else in_sequence.view(-1, 1, 1, 1)
    dtype = dtype if round_once else stored
    cos, sin = (v.transpose(0, 1)[:, :, None].to(dtype) for v in (cos, sin))  # (s, b or 1, 1, d2)
    outs = []
    for x in views:
        rotary, tail = x.split((d2, x.shape[-1] - d2), dim=-1)
        if in_sequence is not None:
            rotary = torch.where(in_sequence, rotary, 0)  # padding may hold anything, NaN too
        rotary = rotary.to(dtype)
        if transpose:
            # the transpose of a quarter turn is its negative
            rotated = rotary * cos - _quarter_turn(rotary * sin, angles.interleaved)
        else:
            rotated = rotary * cos + _quarter_turn(rotary, angles.interleaved) * sin
        rotated = torch.cat((rotated.to(stored), tail), dim=-1)
        if in_sequence is not None:
            rotated = torch.where(in_sequence, rotated, x)
        outs.append(view_from_sbhd(rotated, angles.tensor_format).contiguous())
    return tuple(outs)


def table_gradients(tensors: tuple, grads: tuple, angles: Angles, transpose: bool) -> tuple:
    """Gradients of the table, and of the sines if it has them, from those of what was rotated.

    Cosines were multiplied by `t`, sines by `rotate_half(t)`; the sum is over all heads alike.
    """
    dtype, total = _compute_dtype(tensors[0]), 0
    for t, grad in zip(tensors, grads, strict=True):
        if grad is not None:
            views = (view_as_sbhd(v, angles.tensor_format) for v in (t, grad))
            x, g = (v.narrow(-1, 0, angles.rotary_dim).to(dtype) for v in views)
            x, g = (g, x) if transpose else (x, g)
            factors = x, _quarter_turn(x, angles.interleaved)
            total = total + torch.cat([(g * factor).sum(2) for factor in factors], -1)
    total = total.transpose(0, 1) if angles.per_batch else total.sum(1)[None]
    table = angles.table
    of_cos, of_sin = (v.reshape(table.shape) for v in angles.add_rows(total).chunk(2, -1))
    if angles.sin is not None:
        return of_cos.to(table.dtype), of_sin.to(table.dtype)
    return (table.to(dtype).cos() * of_sin - table.to(dtype).sin() * of_cos).to(table.dtype), None


def _compute_dtype(t: Tensor) -> torch.dtype:
    return torch.float64 if t.dtype == torch.float64 else torch.float32
