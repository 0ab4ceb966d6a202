"""Rotations in plain PyTorch: the kernel's definition and yardstick.

On any device, in every dtype, for tensors of every class, with all derivatives. Nothing is checked.
"""

import torch
from torch import Tensor

from .rotation import Rotation, compute_dtype, seq_len_of, view_from_sbhd


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1)."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Tensor | tuple[Tensor, Tensor],
    tensor_format: str = "sbhd",
    *,
    round_once: bool = False,
    **options: object,
) -> Tensor:
    """`rope_kernels.apply_rotary_pos_emb` in PyTorch, for arguments that are known to be good.

    Args:
        t, tensor_format: as there.
        freqs: angles, (s2, 1, 1, d2); or (cos, sin); or a module's `turns()`, int64, (d2 / 2,).
        round_once: compute in fp32 (fp64 for fp64) and round once, as the kernel does; False: round
            cos and sin first and compute in `t.dtype`, as TransformerEngine's unfused function.
        options: other fields of `Rotation`.
    """
    table, sin = (freqs, None) if isinstance(freqs, Tensor) else freqs
    options["rounding"] = "once" if round_once else "model"
    options.setdefault("rotary_dim", table.shape[-1] * (2 if table.dim() == 1 else 1))
    return rotate((t,), Rotation(table, sin, tensor_format=tensor_format, **options))[0]


def rotate(
    tensors: tuple[Tensor, ...], rotation: Rotation, stays_promoted: bool = False
) -> tuple[Tensor, ...]:
    """Rotate tensors; differentiable in them and in the table, as often as you like.

    `stays_promoted`: return fp32 (fp64 for fp64), for a norm that comes after the rotation.
    """
    stored, computed = tensors[0].dtype, compute_dtype(tensors[0])
    rounding, order = rotation.rounding, rotation.tensor_format
    cos, sin, in_sequence = rotation.cos_sin(seq_len_of(tensors[0], order), computed)
    if in_sequence is not None:
        in_sequence = view_from_sbhd(in_sequence.view(-1, 1, 1, 1), order)
    returned = computed if stays_promoted else rotation.returned_dtype(tensors[0])
    # 'promoted' upcasts nothing: autograd rounds the gradient of each product
    is_upcast = rounding in ("once", "upcast")
    dtype, rounded = (computed, computed) if is_upcast else (stored, returned)
    known = stored if rounding == "model" else computed
    # (s, b or 1, 1, d2), in the order of the tensors: their gradients come out contiguous
    cos, sin = (view_from_sbhd(v.transpose(0, 1)[:, :, None].to(known), order) for v in (cos, sin))
    start, end = rotation.rotary_start, rotation.rotary_start + rotation.rotary_dim
    reads_interleaved, writes_interleaved = rotation.pairings
    outs = []
    for x in tensors:
        # not tensor_split: its backward adds up three tensors, where this one concatenates them
        before, given, after = x.split((start, end - start, x.shape[-1] - end), dim=-1)
        if rotation.interleaved and not reads_interleaved:
            given = torch.stack(given.chunk(2, dim=-1), dim=-1).reshape(given.shape)
        rotary = given
        if in_sequence is not None:
            rotary = torch.where(in_sequence, rotary, 0)  # padding may hold anything, NaN too
        rotary = rotary.to(dtype)
        if rotation.transpose:
            # the transpose of a quarter turn is its negative
            of_cos, of_sin = (rotary * cos).to(rounded), (rotary * sin).to(rounded)
            rotated = of_cos - rotate_half(of_sin, rotation.interleaved)
        else:
            rotated = rotary * cos + rotate_half(rotary, rotation.interleaved) * sin
        rotated = rotated.to(returned)
        if in_sequence is not None:
            rotated = torch.where(in_sequence, rotated, given)
        if rotation.interleaved and not writes_interleaved:
            rotated = torch.cat((rotated[..., ::2], rotated[..., 1::2]), dim=-1)
        if rotation.keeps_strides and rotation.rotary_dim == x.shape[-1]:
            outs.append(rotated)  # elementwise operators keep the order of dimensions of `x`
        else:
            outs.append(torch.cat((before, rotated, after), dim=-1).contiguous())
    return tuple(outs)
