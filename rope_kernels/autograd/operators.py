"""The launches as operators of PyTorch, for torch.compile, which does not look into them.

A functional operator carries its own backward. An `autograd.Function` will not do under a trace:
Dynamo traces through it, and then saves no versions, so that a tensor which is overwritten between
forward and backward gives wrong gradients silently (seen with torch 2.11 and 2.13).

A norm has none: a compiler fuses what PyTorch does there.
"""

import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..call.arguments import names_of
from ..call.cache_checks import check_written
from ..call.checks import check_inplace, check_values
from ..call.formats import view_as_sbhd
from ..call.packed_format import PackedFormat
from ..call.rotation import FIELDS, Rotation, memory_for
from ..launch import launch
from ..machine.modes import wants_grad
from . import rope_function, split_function


def rotate_by_operator(
    tensors: Sequence[Tensor], rotation: Rotation, inplace: bool = False
) -> tuple[Tensor, ...]:
    """`launch.rotate` as an operator, into new memory differentiable as often as you like.

    Raises:
        RuntimeError: autograd would record it in place. PyTorch gives no backward to operators in
            place, and the gradient would silently lack the rotation.
    """
    if not inplace:
        return tuple(_rotate_op(tensors, *_values_of(rotation)))
    if wants_grad(tensors):
        raise RuntimeError("a traced rotation in place has no gradient; rotate into new memory")
    _rotate_inplace_op(tensors, *_values_of(rotation))
    return tensors


def rope_to_cache_by_operator(
    tensors: Sequence[Tensor],
    outs: Sequence[Tensor | None],
    cache: Sequence[Tensor],
    rotation: Rotation,
) -> None:
    """`launch.rope_to_cache` as an operator, without a gradient."""
    _rope_to_cache_op(*tensors, *outs, *cache, *_values_of(rotation))


def split_qkv_rope_by_operator(
    qkv: Tensor, packed: PackedFormat, rotation: Rotation
) -> tuple[Tensor, ...]:
    """`launch.split_qkv_rope` as an operator, differentiable as often as you like."""
    return tuple(_split_op(qkv, *packed, *_values_of(rotation)))


def split_qkv_rope_backward_by_operator(
    grads: Sequence[Tensor], packed: PackedFormat, rotation: Rotation
) -> Tensor:
    """`launch.split_qkv_rope_backward` as an operator."""
    return _split_backward_op(grads, *packed, *_values_of(rotation))[0]


# A rotation as arguments of an operator: its fields, but for the norm


def _schema_of(kind: type) -> str:
    """The fields of a class as arguments: "Tensor table, Tensor? sin, ..."."""
    fields = {name: type for name, type in kind.__annotations__.items() if type in _TYPES}
    return ", ".join([f"{_TYPES[type]} {name}" for name, type in fields.items()])


_TYPES = {
    Tensor: "Tensor",
    Tensor | None: "Tensor?",
    str: "str",
    bool: "bool",
    int: "SymInt",
    float: "float",
}
_ROTATION = _schema_of(Rotation)
_PACKED = _schema_of(PackedFormat)
_OWN_FIELDS = FIELDS[:-1]  # without the norm


def _values_of(rotation: Rotation) -> tuple:
    return *rotation.tensors, *rotation.options[:-1]


# What operators are: their names, their body, and the memory that a tracer gets

# A copy of the package, imported under another name, has operators of its own.
NAMESPACE = __name__.partition(".")[0]


def _operator(name: str, arguments: str) -> Callable:
    """Declare a function as an operator. One that overwrites what is given returns nothing."""
    mutated = set(re.findall(r"\(\w!\)[][?]* (\w+)", arguments))
    returned = "()" if mutated else "Tensor[]"
    schema = f"({arguments}) -> {returned}"
    return torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=mutated, schema=schema)


def _run(tensors: Sequence[Tensor], values: Sequence, inplace: bool = False) -> list[Tensor]:
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    rotation, tensors = Rotation.of(values), tuple(tensors)
    if inplace:
        check_inplace(names_of(tensors, rotation.transpose), tensors, rotation)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    entry = launch.entry_of_rotation(tensors, rotation, inplace)
    return list(launch.rotate(tensors, rotation, inplace, entry))


# A rotation


@_operator("rotate", f"Tensor[] tensors, {_ROTATION}")
def _rotate_op(tensors, *values):
    return _run(tensors, values)


@_operator("rotate_inplace", f"Tensor(a!)[] tensors, {_ROTATION}")
def _rotate_inplace_op(tensors, *values):
    _run(tensors, values, inplace=True)


@_rotate_op.register_fake
def _(tensors, *values):
    return list(memory_for(tensors, Rotation.of(values)))


def _keep_rotation(ctx, inputs, output):
    tensors, *values = inputs
    rope_function.keep_rotation(ctx, tensors, output, Rotation.of(values))


def _backward_of_rotation(ctx, grads):
    needed = ctx.needs_input_grad[0]
    found = rope_function.gradients(ctx, grads, needed, rotate_by_operator)
    return found, *[None] * len(_OWN_FIELDS)


_rotate_op.register_autograd(_backward_of_rotation, setup_context=_keep_rotation)

# A projection


@_operator("split_qkv_rope", f"Tensor qkv, {_PACKED}, {_ROTATION}")
def _split_op(qkv, *values):
    packed, rotation = _packed_of(values)
    check_values(rotation, packed.views(qkv)[0].shape[0])
    return list(launch.split_qkv_rope(qkv, packed, rotation))


def _packed_of(values: Sequence) -> tuple[PackedFormat, Rotation]:
    count = len(PackedFormat._fields)
    return PackedFormat._make(values[:count]), Rotation.of(values[count:])


@_split_op.register_fake
def _(qkv, *values):
    packed, _ = _packed_of(values)
    return list(packed.outputs(qkv))


def _keep_split(ctx, inputs, output):
    qkv, *values = inputs
    ctx.others = len(values)  # inputs that have no gradient
    split_function.keep_split(ctx, qkv, *_packed_of(values))


def _backward_of_split(ctx, grads):
    found = split_function.gradient(ctx, grads, split_qkv_rope_backward_by_operator)
    return found, *[None] * ctx.others


_split_op.register_autograd(_backward_of_split, setup_context=_keep_split)


@_operator("split_qkv_rope_backward", f"Tensor[] grads, {_PACKED}, {_ROTATION}")
def _split_backward_op(grads, *values):
    return [launch.split_qkv_rope_backward(grads, *_packed_of(values))]


@_split_backward_op.register_fake
def _(grads, *values):
    packed, _ = _packed_of(values)
    return [packed.gradient(grads)]


# A write into caches


@_operator(
    "rope_to_cache",
    "Tensor q, Tensor k, Tensor(a!) q_out, Tensor(b!)? k_out, Tensor v, Tensor(c!) k_cache, "
    f"Tensor(d!) v_cache, Tensor slot_mapping, {_ROTATION}",
)
def _rope_to_cache_op(q, k, q_out, k_out, *values):
    cache, rotation = values[:4], Rotation.of(values[4:])
    inplace = q_out.data_ptr() == q.data_ptr()
    check_written((q, k), inplace, cache, rotation)
    check_values(rotation, len(q))
    launch.rope_to_cache((q, k), (q_out, k_out), cache, rotation)


@_rope_to_cache_op.register_fake
def _(*given):
    return None
