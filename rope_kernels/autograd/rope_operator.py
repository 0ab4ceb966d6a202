"""The launch as operators of PyTorch, for torch.compile, which does not look into them.

The functional operator carries its own backward. An `autograd.Function` will not do under a trace:
Dynamo traces through it, and then saves no versions, so that a tensor which is overwritten between
forward and backward gives wrong gradients silently (seen with torch 2.11 and 2.13).
"""

from dataclasses import fields

import torch
from torch import Tensor

from ..call.arguments import names_of
from ..call.checks import check_inplace, check_values
from ..call.formats import view_as_sbhd
from ..call.rotation import FIELDS, Rotation, memory_for
from ..launch import fastpath, launch_rope
from ..machine.modes import wants_grad
from .rope_function import gradients, keep


def rotate_by_operator(tensors: tuple[Tensor, ...], rotation: Rotation) -> tuple[Tensor, ...]:
    """`launch_rope.rotate` into new memory as an operator, differentiable as often as you like."""
    return tuple(_rotate_op(tensors, *rotation.tensors, *rotation.options))


def rotate_inplace_by_operator(
    tensors: tuple[Tensor, ...], rotation: Rotation
) -> tuple[Tensor, ...]:
    """`launch_rope.rotate` in place as an operator, where autograd records nothing.

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
        check_inplace(names_of(tensors, rotation.transpose), tensors, rotation)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    entry = fastpath.entry_of_rotation(rotation, tensors, inplace)
    return launch_rope.rotate(tensors, rotation, inplace, entry)


def schema_of(kind: type) -> str:
    """The fields of a dataclass as arguments of an operator: "Tensor table, Tensor? sin, ..."."""
    return ", ".join([f"{_TYPES[field.type]} {field.name}" for field in fields(kind)])


_TYPES = {
    Tensor: "Tensor",
    Tensor | None: "Tensor?",
    str: "str",
    bool: "bool",
    int: "SymInt",
    float: "float",
}
ROTATION = schema_of(Rotation)
# A copy of the package, imported under another name, has operators of its own.
NAMESPACE = __name__.partition(".")[0]


@torch.library.custom_op(
    f"{NAMESPACE}::rotate", mutates_args=(), schema=f"(Tensor[] tensors, {ROTATION}) -> Tensor[]"
)
def _rotate_op(tensors, *values):
    return list(_run(tuple(tensors), Rotation.of(values), inplace=False))


@_rotate_op.register_fake
def _(tensors, *values):
    return list(memory_for(tuple(tensors), Rotation.of(values)))


def _setup_context(ctx, inputs, output):
    tensors, *values = inputs
    keep(ctx, tensors, output, Rotation.of(values))


def _backward(ctx, grads):
    found, table, sin = gradients(ctx, grads, ctx.needs_input_grad[0], rotate_by_operator)
    of_fields = {"table": table, "sin": sin}
    return found, *[of_fields.get(name) for name in FIELDS]


_rotate_op.register_autograd(_backward, setup_context=_setup_context)


@torch.library.custom_op(
    f"{NAMESPACE}::rotate_inplace",
    mutates_args={"tensors"},
    schema=f"(Tensor(a!)[] tensors, {ROTATION}) -> ()",
)
def _rotate_inplace_op(tensors, *values):
    _run(tuple(tensors), Rotation.of(values), inplace=True)
