"""Rotations in plain PyTorch: the definition that tests compare kernels with.

They work on any device, for any dtype and tensor class, and have all derivatives. Arguments are not
checked.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from .embedding import for_both_members, radians
from .rotation import (
    Options,
    Rotation,
    compute_dtype,
    find_in_packed,
    positions_of_rank,
    seq_len_of,
    view_from_sbhd,
)


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Map every pair (x1, x2) of the last dimension to (-x2, x1)."""
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
    interleaved: bool = False,
    rotary_dim: int | None = None,
    inverse: bool = False,
    transpose: bool = False,
    position_ids: Tensor | None = None,
) -> Tensor:
    """`rope_kernels.apply_rotary_pos_emb` in plain PyTorch, without its checks.

    Args:
        t, tensor_format, interleaved, rotary_dim, inverse, position_ids: as there.
        freqs: angles, (s2, 1, 1, d2); or (cos, sin); or a module's `inv_freq`, (d2 / 2,).
        round_once: True: compute in fp32 (fp64 for fp64) and round once, as the kernel does. False:
            round cos and sin first and compute in `t.dtype`, as TransformerEngine's unfused
            function does.
        transpose: True: the transposed map, as in `rope_bw`.
    """
    table, sin = (freqs, None) if isinstance(freqs, Tensor) else freqs
    if rotary_dim is None:
        rotary_dim = table.shape[-1] * (2 if table.dim() == 1 else 1)
    options = Options(
        tensor_format=tensor_format,
        rotary_dim=rotary_dim,
        on_the_fly=table.dim() == 1,
        interleaved=interleaved,
        inverse=inverse,
        rounding="once" if round_once else "model",
    )
    rotation = Rotation(
        table=table,
        sin=sin,
        cu_seqlens=None,
        start_positions=None,
        position_ids=position_ids,
        first_position=None,
        transpose=transpose,
        options=options,
    )
    return rotate((t,), rotation)[0]


def rotate(
    tensors: tuple[Tensor, ...], rotation: Rotation, stays_promoted: bool = False
) -> tuple[Tensor, ...]:
    """Rotate tensors; differentiable in them and in the table any number of times.

    With `stays_promoted`, results are fp32 (fp64 for fp64), for a norm that follows.
    """
    options = rotation.options
    stored, computed = tensors[0].dtype, compute_dtype(tensors[0])
    returned = computed if stays_promoted else rotation.returned_dtype(tensors[0])
    table_dtype = stored if options.rounding == "model" else computed
    if options.rounding in ("once", "upcast"):
        product_dtype, sum_dtype = computed, computed
    else:  # With "promoted", each product promotes `x`, and autograd rounds its gradient.
        product_dtype, sum_dtype = stored, returned

    cos, sin, in_sequence = cos_sin(
        rotation, seq_len_of(tensors[0], options.tensor_format), computed
    )
    cos, sin = _like_rows(cos.to(table_dtype), options), _like_rows(sin.to(table_dtype), options)
    if in_sequence is not None:
        in_sequence = view_from_sbhd(in_sequence.view(-1, 1, 1, 1), options.tensor_format)
    start, end = options.rotary_start, options.rotary_start + options.rotary_dim
    reads_interleaved, writes_interleaved = rotation.pairings
    outs = []
    for t in tensors:
        # In the order of memory, so that the gradient of a concatenation has that order, too.
        order = list(range(t.dim())) if options.contiguous_gradients else _order_of(t)
        x, cos_of_x, sin_of_x = (y.permute(order) for y in (t, cos, sin))
        is_inside = None if in_sequence is None else in_sequence.permute(order)
        # `split`'s backward concatenates three tensors. `tensor_split`'s would pad and add them.
        before, given, after = torch.split(x, [start, end - start, x.shape[-1] - end], dim=-1)
        if options.interleaved and not reads_interleaved:
            given = torch.stack(given.chunk(2, dim=-1), dim=-1).reshape(given.shape)
        rotary = given
        if is_inside is not None:
            rotary = torch.where(is_inside, rotary, 0)  # Padding may contain NaN.
        rotary = rotary.to(product_dtype)
        if rotation.transpose:
            # The transpose of `rotate_half` is its negative.
            of_cos, of_sin = (rotary * cos_of_x).to(sum_dtype), (rotary * sin_of_x).to(sum_dtype)
            rotated = of_cos - rotate_half(of_sin, options.interleaved)
        else:
            rotated = rotary * cos_of_x + rotate_half(rotary, options.interleaved) * sin_of_x
        rotated = rotated.to(returned)
        if is_inside is not None:
            rotated = torch.where(is_inside, rotated, given)
        if options.interleaved and not writes_interleaved:
            rotated = torch.cat((rotated[..., ::2], rotated[..., 1::2]), dim=-1)
        out = torch.cat((before, rotated, after), dim=-1).permute(_inverse_of(order))
        outs.append(in_order_of(t, out))
    return tuple(outs)


def in_order_of(t: Tensor, out: Tensor) -> Tensor:
    """`out` in memory with the strides of `torch.empty_like(t)`, as from a pointwise operator."""
    strides = torch.empty_like(t).stride()
    if out.stride() == strides:
        return out
    order = sorted(range(t.dim()), key=strides.__getitem__, reverse=True)
    # `copy_` into new memory would fail in vmap if only `out` is batched.
    return out.permute(order).contiguous().permute(_inverse_of(order))


def _order_of(t: Tensor) -> list[int]:
    """The dimensions from the largest stride to the smallest, but for the last one."""
    dims = list(range(t.dim() - 1))
    if not t.is_contiguous():
        dims.sort(key=torch.empty_like(t).stride().__getitem__, reverse=True)
    return [*dims, t.dim() - 1]


def _inverse_of(order: list[int]) -> list[int]:
    return [order.index(dim) for dim in range(len(order))]


def _like_rows(x: Tensor, options: Options) -> Tensor:
    """Permute values (b or 1, s, d2) to the format of the rotated tensor, with one head."""
    return view_from_sbhd(x.transpose(0, 1)[:, :, None], options.tensor_format)


def cos_sin(
    rotation: Rotation, seq_len: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Cosines and sines of each token, (b or 1, s, d2), and whether it is in a sequence.

    They are NaN if the position is outside the table. None: all tokens are in sequences.
    """
    options, tables = rotation.options, _tables(rotation)
    in_order = not rotation.looks_up_positions and rotation.first_position is None
    if in_order and not rotation.options.on_the_fly and options.cp_size == 1:
        found, in_sequence = [x[:, :seq_len] for x in tables], None
    else:
        position, in_sequence = positions(rotation, seq_len)
        if rotation.options.on_the_fly:
            found = [radians(rotation.table, position[..., None], dtype)]
        else:
            # Cast the table before indexing. Then the gradient of a row is the sum over its tokens
            # in `dtype`, and is rounded once.
            found = [_rows_at(x.to(dtype), position) for x in tables]
    cos, sin = found[0].to(dtype), found[-1].to(dtype)
    if rotation.sin is None:
        cos, sin = cos.cos(), sin.sin()
    if options.attention_factor != 1.0:
        cos, sin = cos * options.attention_factor, sin * options.attention_factor
    if rotation.one_per_pair:
        cos = for_both_members(cos, options.interleaved)
        sin = for_both_members(sin, options.interleaved)
    return cos, -sin if options.inverse else sin, in_sequence


def positions(rotation: Rotation, seq_len: int) -> tuple[Tensor, Tensor | None]:
    """The position of each token, (b or 1, s), and whether it is in a sequence; None: all are."""
    options, starts = rotation.options, rotation.start_positions
    token = torch.arange(seq_len, device=rotation.table.device)
    position, in_sequence = token, None
    length: int | Tensor = seq_len
    if rotation.cu_seqlens is not None:
        bounds = rotation.cu_seqlens.long() // options.cp_size
        sequence, position, length = find_in_packed(bounds, token)
        in_sequence = token < bounds[-1]
        starts = None if starts is None else pad(starts, (0, 1))[sequence]
    elif starts is not None:
        starts = starts[:, None]
    position = positions_of_rank(
        position,
        length,
        cp_size=options.cp_size,
        cp_rank=options.cp_rank,
        cp_order=options.cp_order,
    )
    if rotation.first_position is not None:
        position = position + rotation.first_position
    if starts is not None:
        position = position + starts
    if rotation.position_ids is not None:
        position = rotation.position_ids.long()
    return position[None] if position.dim() == 1 else position, in_sequence


def _tables(rotation: Rotation) -> list[Tensor]:
    """Angles, or cosines and sines, each (b or 1, s2, w); or frequencies."""
    tables = [rotation.table] if rotation.sin is None else [rotation.table, rotation.sin]
    # Indexing works with `is_grads_batched=True`; `flatten` doesn't.
    tables = [x[:, 0, 0] if x.dim() == 4 else x for x in tables]
    return [x if x.dim() == 3 else x[None] for x in tables]


def _rows_at(table: Tensor, position: Tensor) -> Tensor:
    """The table's row at each position, (b or 1, s, columns); NaN outside the table."""
    batch, s2, _ = table.shape
    entry = torch.arange(batch, device=table.device)[:, None]
    row = torch.where(position < 0, s2, position).clamp(max=s2)
    return pad(table, (0, 0, 0, 1), value=math.nan)[entry, row]
