"""The launch as operators of PyTorch, for torch.compile, which does not look into them."""

import torch
from torch import Tensor

from . import fastpath, launch
from .checks import check_inplace, check_values
from .formats import view_as_sbhd
from .rotation import Rotation


def rotate_by_operator(
    tensors: tuple[Tensor, ...],
    rotation: Rotation,
    inplace: bool,
    entry: fastpath.Entry | None = None,
) -> tuple[Tensor, ...]:
    """`launch.rotate` as an operator, which torch.compile does not look into."""
    operator = _rotate_inplace_op if inplace else _rotate_op
    outs = operator(tensors, *rotation.tensors, *rotation.options)
    return tensors if inplace else tuple(outs)


def _run(tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool) -> tuple[Tensor, ...]:
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    if inplace:
        alone = ("grad",) if rotation.transpose else ("t",)
        check_inplace(("q", "k") if len(tensors) == 2 else alone, tensors, rotation)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    entry = fastpath.entry_of_rotation(rotation, tensors, inplace)
    return launch.rotate(tensors, rotation, inplace, entry)


# The fields of a Rotation, in order.
FIELDS = (
    "Tensor table, Tensor? sin, Tensor? cu_seqlens, Tensor? start_positions, Tensor? position_ids, "
    "str tensor_format, bool interleaved, SymInt cp_size, SymInt cp_rank, bool transpose, "
    "bool one_per_pair, SymInt rotary_start, bool inverse, bool to_half_split"
)


@torch.library.custom_op(
    "rope_kernels::rotate", mutates_args=(), schema=f"(Tensor[] tensors, {FIELDS}) -> Tensor[]"
)
def _rotate_op(tensors, *fields):
    return list(_run(tuple(tensors), Rotation(*fields), inplace=False))


@_rotate_op.register_fake
def _(tensors, *fields):
    return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in tensors]


@torch.library.custom_op(
    "rope_kernels::rotate_inplace",
    mutates_args={"tensors"},
    schema=f"(Tensor(a!)[] tensors, {FIELDS}) -> ()",
)
def _rotate_inplace_op(tensors, *fields):
    _run(tuple(tensors), Rotation(*fields), inplace=True)
