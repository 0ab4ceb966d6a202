"""The launch as operators of PyTorch, for torch.compile, which does not look into them.

The functional operator carries its own backward. An `autograd.Function` will not do under a trace:
Dynamo traces through it, and then saves no versions, so that a tensor which is overwritten between
forward and backward gives wrong gradients silently (seen with torch 2.11 and 2.13).
"""

import torch
from torch import Tensor

from ..call.checks import check_inplace, check_values
from ..call.formats import view_as_sbhd
from ..call.rotation import Rotation
from ..launch import fastpath, launch_rope
from ..machine.modes import wants_grad
from .rope_function import gradients, keep


def rotate_by_operator(tensors: tuple[Tensor, ...], rotation: Rotation) -> tuple[Tensor, ...]:
    """`launch.rotate` into new memory as an operator, differentiable as often as you like."""
    return tuple(_rotate_op(tensors, *rotation.tensors, *rotation.options))


def rotate_inplace_by_operator(
    tensors: tuple[Tensor, ...], rotation: Rotation
) -> tuple[Tensor, ...]:
    """`launch.rotate` in place as an operator, where autograd records nothing.

    Raises:
        RuntimeError: autograd would record it. PyTorch gives no backward to operators in place, and
            the gradient would silently lack the rotation.
    """
    if wants_grad((*tensors, rotation.table, rotation.sin)):
        raise RuntimeError("a traced rotation in place has no gradient; rotate into new memory")
    _rotate_inplace_op(tensors, *rotation.tensors, *rotation.options)
    return tensors


def _run(tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool) -> tuple[Tensor, ...]:
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    if inplace:
        alone = ("grad",) if rotation.transpose else ("t",)
        check_inplace(("q", "k") if len(tensors) == 2 else alone, tensors, rotation)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    entry = fastpath.entry_of_rotation(rotation, tensors, inplace)
    return launch_rope.rotate(tensors, rotation, inplace, entry)


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


def _setup_context(ctx, inputs, output):
    tensors, *fields = inputs
    keep(ctx, tensors, output, Rotation(*fields))
    ctx.others = len(fields) - 2  # inputs that have no gradient


def _backward(ctx, grads):
    found, *of_tables = gradients(ctx, grads, ctx.needs_input_grad[0], rotate_by_operator)
    return found, *of_tables, *[None] * ctx.others


_rotate_op.register_autograd(_backward, setup_context=_setup_context)


@torch.library.custom_op(
    "rope_kernels::rotate_inplace",
    mutates_args={"tensors"},
    schema=f"(Tensor(a!)[] tensors, {FIELDS}) -> ()",
)
def _rotate_inplace_op(tensors, *fields):
    _run(tuple(tensors), Rotation(*fields), inplace=True)
