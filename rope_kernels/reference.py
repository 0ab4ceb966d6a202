"""Rotations and norms in plain PyTorch: the kernels' definition and yardstick.

On any device, in every dtype, for tensors of every class, with all derivatives. Nothing is checked.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .call.formats import view_as_sbhd, view_from_sbhd
from .call.packed_format import PackedFormat
from .call.rotation import Normalization, Rotation, returned_dtype


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1)."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def to_half_split(x: Tensor) -> Tensor:
    """Reorder interleaved pairs (..., d2): all first members, then all second members."""
    return torch.cat((x[..., ::2], x[..., 1::2]), dim=-1)


def to_interleaved(x: Tensor) -> Tensor:
    """Undo `to_half_split`."""
    return torch.stack(x.chunk(2, dim=-1), dim=-1).reshape(x.shape)


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Tensor | tuple[Tensor, Tensor],
    tensor_format: str = "sbhd",
    *,
    round_once: bool = False,
    transpose: bool = False,
    **where,
) -> Tensor:
    """`rope_kernels.apply_rotary_pos_emb` in PyTorch, for arguments that are known to be good.

    Args:
        t, tensor_format: as there.
        freqs: angles, (s2, 1, 1, d2); or (cos, sin); or a module's `turns()`, int64, (d2 / 2,).
        round_once: compute in fp32 (fp64 for fp64) and round once, as the kernel does; False: round
            cos and sin first and compute in `t.dtype`, as TransformerEngine's unfused function.
        transpose: apply the transposed linear map, which takes gradients back.
        where: the other keywords that say where tokens are and what a pair is, as there.
    """
    table, sin = (freqs, None) if isinstance(freqs, Tensor) else freqs
    rotation = Rotation(table, sin, tensor_format=tensor_format, transpose=transpose, **where)
    return rotate((t,), rotation, "once" if round_once else "model")[0]


def rotate(
    tensors: tuple[Tensor, ...], rotation: Rotation, rounding: str, stays_promoted: bool = False
) -> tuple[Tensor, ...]:
    """Rotate tensors; differentiable in them and in the table, as often as you like.

    Args:
        tensors: one or two, each as `tensor_format` says.
        rotation: by which angles.
        rounding: as in `rope_kernels.apply_rotary_pos_emb`.
        stays_promoted: return fp32 (fp64 for fp64), for a norm that comes after the rotation.
    """
    stored, computed, order = tensors[0].dtype, compute_dtype(tensors[0]), rotation.tensor_format
    seq_len = view_as_sbhd(tensors[0], order).shape[0]
    cos, sin, in_sequence = rotation.cos_sin(seq_len, computed)
    if in_sequence is not None:
        in_sequence = view_from_sbhd(in_sequence.view(-1, 1, 1, 1), order)
    returned = computed if stays_promoted else returned_dtype(rotation, tensors[0])
    # 'promoted' upcasts nothing: autograd rounds the gradient of each product
    is_upcast = rounding in ("once", "upcast")
    dtype, rounded = (computed, computed) if is_upcast else (stored, returned)
    known = stored if rounding == "model" else computed
    # (s, b or 1, 1, d2), in the order of the tensors: their gradients come out contiguous
    cos, sin = (view_from_sbhd(v.transpose(0, 1)[:, :, None].to(known), order) for v in (cos, sin))
    start, end = rotation.rotary_start, rotation.rotary_start + cos.shape[-1]
    reads_interleaved, writes_interleaved = rotation.pairings
    outs = []
    for x in tensors:
        # not tensor_split: its backward adds up three tensors, where this one concatenates them
        sizes = start, end - start, x.shape[-1] - end
        before, given, after = x.split(sizes, dim=-1)
        if rotation.interleaved and not reads_interleaved:
            given = to_interleaved(given)
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
            rotated = to_half_split(rotated)
        if rotation.keeps_strides and rotation.rotary_dim == x.shape[-1]:
            outs.append(rotated)  # elementwise operators keep the order of dimensions of `x`
        else:
            outs.append(torch.cat((before, rotated, after), dim=-1).contiguous())
    return tuple(outs)


def compute_dtype(t: Tensor) -> torch.dtype:
    return torch.float64 if t.dtype == torch.float64 else torch.float32


def norm_rope(
    tensors: Sequence[Tensor], weights: Sequence[Tensor], rotation: Rotation
) -> tuple[Tensor, ...]:
    """Normalize and rotate; differentiable in every tensor, as often as you like.

    Without `like_model` all is computed in fp32 (fp64 for fp64) and rounded once, at the end. With
    it these are the operators of models in transformers, and PyTorch promotes: what meets a weight
    or cos and sin in fp32 stays in fp32.

    Args:
        tensors: one or two, each as `tensor_format` says.
        weights: as many, (d,); or none.
        rotation: by which angles, and how rows are normalized.
    """
    norm, stored, rows, rounding = rotation.norm, tensors[0].dtype, tuple(tensors), "once"
    if norm.like_model:
        rounding = "promoted" if rotation.rounding == "promoted" else "model"
    else:
        rows = tuple([t.to(compute_dtype(t)) for t in tensors])
    if norm.after:
        rows = rotate(rows, rotation, rounding, stays_promoted=rounding == "promoted")
    weights = weights or [None] * len(rows)
    pairs = zip(rows, weights, strict=True)
    rows = tuple([normalize(row, weight, norm) for row, weight in pairs])
    if not norm.after:
        rows = rotate(rows, rotation, rounding)
    return tuple([row.to(stored).contiguous() for row in rows])


def normalize(x: Tensor, weight: Tensor | None, norm: Normalization) -> Tensor:
    """x / rms(x) * (weight_offset + weight), in the dtype of `x`; sums in fp32 at least.

    Like a model that does not cast last, it is cast before a product that the weight may promote.
    """
    exact = x.to(compute_dtype(x))
    normal = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + norm.eps)
    if weight is None:
        return normal.to(x.dtype)
    if norm.like_model and not norm.casts_last:
        return weight * normal.to(x.dtype)
    return ((weight.to(exact.dtype) + norm.weight_offset) * normal).to(x.dtype)


def split_qkv_rope(
    qkv: Tensor, packed: PackedFormat, rotation: Rotation
) -> tuple[Tensor, Tensor, Tensor]:
    """Split a projection and rotate q and k; differentiable.

    Arguments as `launch.split_qkv_rope` has them.
    """
    q, k, v = packed.rows(qkv)
    return packed.returned((*rotate((q, k), rotation, rotation.rounding), v))


def rope_to_cache(
    tensors: Sequence[Tensor],
    outs: Sequence[Tensor | None],
    cache: Sequence[Tensor],
    rotation: Rotation,
) -> None:
    """Rotate q and k, and write k and v to their slots.

    Arguments as `launch.rope_to_cache` has them.
    """
    v, k_cache, v_cache, slot_mapping = cache
    rotated = rotate(tuple(tensors), rotation, rotation.rounding)
    _write(k_cache, rotated[1], slot_mapping)
    _write(v_cache, v, slot_mapping)
    for out, x in zip(outs, rotated, strict=True):
        if out is not None:
            out.copy_(x)


def _write(cache: Tensor, rows: Tensor, slot_mapping: Tensor) -> None:
    """Write rows (tokens, h, d) to their slots of a cache (blocks, page, h, d)."""
    page = cache.shape[1]
    slot, rows = slot_mapping.long(), rows[: len(slot_mapping)]
    if not (slot.numel() and cache.numel()):
        return
    inside = (slot >= 0) & (slot < cache.shape[0] * page)
    # A token without a slot writes once more what the first one with a slot does. Without any,
    # slot 0 gets what it has. So no value is read back, and no shape depends on one.
    first, any_inside = inside.int().argmax().view(1), inside.any()
    other_slot = torch.where(any_inside, slot.index_select(0, first), 0)
    other_row = torch.where(any_inside, rows.index_select(0, first), cache[0, 0])
    slot = torch.where(inside, slot, other_slot)
    cache[slot // page, slot % page] = torch.where(inside[:, None, None], rows, other_row)
