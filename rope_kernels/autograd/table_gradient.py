"""The gradient of a table of angles, or of cosines and sines, for models that learn them."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..call.formats import view_as_sbhd
from ..call.positions import positions_of
from ..call.rotation import Rotation
from ..reference import compute_dtype, rotate_half, to_interleaved


def table_gradients(
    tensors: tuple[Tensor, ...], grads: tuple[Tensor | None, ...], rotation: Rotation
) -> tuple[Tensor, Tensor | None]:
    """Gradients of `rotation.table` and `rotation.sin`, from those of what was rotated.

    Cosines were multiplied by `t`, sines by `rotate_half(t)`; every head adds to the sum.
    """
    computed, total = compute_dtype(tensors[0]), 0
    for t, grad in zip(tensors, grads, strict=True):
        if grad is None:
            continue
        views = (view_as_sbhd(v, rotation.tensor_format) for v in (t, grad))
        start, rotary_dim = rotation.rotary_start, rotation.rotary_dim
        x, g = (v.narrow(-1, start, rotary_dim).to(computed) for v in views)
        if rotation.transpose:
            x, g = g, x
        if rotation.to_half_split:
            g = to_interleaved(g)
        of_cos, of_sin = g * x, g * rotate_half(x, rotation.interleaved)
        if rotation.one_per_pair:
            of_cos, of_sin = (_of_pairs(v, rotation.interleaved) for v in (of_cos, of_sin))
        if rotation.inverse:
            of_sin = -of_sin
        total = total + torch.cat((of_cos.sum(2), of_sin.sum(2)), -1)
    total = total.transpose(0, 1) if rotation.per_batch else total.sum(1)[None]
    table = rotation.table
    of_cos, of_sin = (v.reshape(table.shape) for v in _add_rows(rotation, total).chunk(2, -1))
    if rotation.sin is not None:
        return of_cos.to(table.dtype), of_sin.to(table.dtype)
    angles = table.to(computed)
    return (angles.cos() * of_sin - angles.sin() * of_cos).to(table.dtype), None


def _of_pairs(x: Tensor, interleaved: bool) -> Tensor:
    """Add up the two members of each pair: (..., d2) to (..., d2 / 2)."""
    return x.unflatten(-1, (-1, 2)).sum(-1) if interleaved else x.unflatten(-1, (2, -1)).sum(-2)


def _add_rows(rotation: Rotation, rows: Tensor) -> Tensor:
    """Add up the rows, (b or 1, s, n), of all tokens at a position: (b or 1, s2, n).

    This is the gradient of reading rows from a table. Outside torch.compile, `index_put` sorts
    on a GPU before it adds, so the order of addition is always the same.
    """
    seq_len, (entries, s2) = rows.shape[1], rotation.tables[0].shape[:2]
    if not (rotation.looks_up_positions or rotation.cp_size > 1):
        return pad(rows, (0, 0, 0, s2 - seq_len))
    position, in_sequence = positions_of(rotation, seq_len)
    counts = (position >= 0) & (position < s2)
    if in_sequence is not None:
        counts = counts & in_sequence
    entry = torch.arange(entries, device=rows.device)[:, None]
    # tokens that read no row add to one past the last, which is cut off
    index = torch.broadcast_tensors(entry, torch.where(counts, position, s2))
    zeros = rows.new_zeros(entries, s2 + 1, rows.shape[2])
    return zeros.index_put(index, rows, accumulate=True)[:, :s2]
