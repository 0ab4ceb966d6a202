"""The launches as operators of PyTorch, for torch.compile, which does not look into them.

A functional operator carries its own backward. An `autograd.Function` will not do under a trace:
Dynamo traces through it, and then saves no versions, so that a tensor which is overwritten between
forward and backward gives wrong gradients silently (seen with torch 2.11 and 2.13).

A rotation has operators of its own, with fewer arguments: each costs host time.
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
from ..call.rotation import FIELDS, Normalization, Rotation, memory_for
from ..launch import launch
from ..launch.launch import Wanted
from ..machine.modes import wants_grad
from ..reference import compute_dtype
from . import norm_function, rope_function, split_function
from .norm_function import Rows


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


def norm_rope_by_operator(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    rotation: Rotation,
    inplace: bool,
) -> tuple[Tensor, ...]:
    """`launch.norm_rope` as an operator, differentiable.

    In place it is for calls that autograd does not record; `check_norm_call` refuses the others.
    """
    rows = tensors, weights, sumsqs
    if not inplace:
        for_backward = wants_grad([x for row in rows for x in row])
        return tuple(_norm_rope_op(*rows, for_backward, *_values_of(rotation))[: len(tensors)])
    _norm_rope_inplace_op(*rows, *_values_of(rotation))
    return tuple(tensors)


def norm_rope_backward_by_operator(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    rstds: Sequence[Tensor],
    positions: Tensor | None,
    weights: Sequence[Tensor],
    rotation: Rotation,
    given_sums: bool,
    wanted: Wanted,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """`launch.norm_rope_backward` as an operator."""
    values = *wanted, *_values_of(rotation)
    found = iter(
        _norm_rope_backward_op(grads, kept, rstds, positions, weights, given_sums, *values)
    )
    outs = [next(found) for _ in kept] if wanted.inputs else []
    of_weights = [next(found) for _ in weights] if wanted.weights else []
    return outs, of_weights, list(found)


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


# A rotation as arguments of an operator: its fields, then those of its norm


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
_NORM = f"{_ROTATION}, {_schema_of(Normalization)}"
_PACKED = _schema_of(PackedFormat)
_WANTED = ", ".join([f"bool wants_{name}" for name in Wanted._fields])
_OWN_FIELDS = FIELDS[:-1]  # without the norm


def _values_of(rotation: Rotation) -> tuple:
    *options, norm = rotation.options
    return *rotation.tensors, *options, *(norm or ())


def _rotation_of(values: Sequence) -> Rotation:
    own, norm = values[: len(_OWN_FIELDS)], values[len(_OWN_FIELDS) :]
    return Rotation.of((*own, Normalization._make(norm) if norm else None))


# What operators are: their names, their body, and the memory that a tracer gets

# A copy of the package, imported under another name, has operators of its own.
NAMESPACE = __name__.partition(".")[0]


def _operator(name: str, arguments: str) -> Callable:
    """Declare a function as an operator. One that overwrites what is given returns nothing."""
    mutated = set(re.findall(r"\(\w!\)[][?]* (\w+)", arguments))
    returned = "()" if mutated else "Tensor[]"
    schema = f"({arguments}) -> {returned}"
    return torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=mutated, schema=schema)


def _run(
    rows: Rows, values: Sequence, inplace: bool = False, for_backward: bool = False
) -> list[Tensor]:
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    rotation, tensors = _rotation_of(values), tuple(rows.tensors)
    if inplace:
        names = names_of(tensors, rotation.transpose)
        beside = [("weight", w) for w in rows.weights] + [("sumsq", x) for x in rows.sumsqs]
        check_inplace(names, tensors, rotation, beside)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    if rotation.norm is None:
        entry = launch.entry_of_rotation(tensors, rotation, inplace)
        return list(launch.rotate(tensors, rotation, inplace, entry))
    outs, rstds, positions = launch.norm_rope(*rows, rotation, inplace, for_backward)
    return _flat(outs, rstds, positions)


def _memory(rows: Rows, values: Sequence, for_backward: bool = False) -> list[Tensor]:
    rotation = _rotation_of(values)
    kept = launch.kept_for_backward(rows.tensors, rotation) if for_backward else ()
    return _flat(memory_for(rows.tensors, rotation), *kept)


def _flat(
    outs: Sequence[Tensor], rstds: Sequence[Tensor] = (), positions: Tensor | None = None
) -> list[Tensor]:
    """An operator returns one list: the results, and what its backward reads."""
    return [*outs, *rstds, *(() if positions is None else (positions,))]


def _one_per_row(t: Tensor) -> Tensor:
    return torch.empty(t.shape[:-1], dtype=compute_dtype(t), device=t.device)


# A rotation


@_operator("rotate", f"Tensor[] tensors, {_ROTATION}")
def _rotate_op(tensors, *values):
    return _run(Rows(tensors), values)


@_operator("rotate_inplace", f"Tensor(a!)[] tensors, {_ROTATION}")
def _rotate_inplace_op(tensors, *values):
    _run(Rows(tensors), values, inplace=True)


@_rotate_op.register_fake
def _(tensors, *values):
    return _memory(Rows(tensors), values)


def _keep_rotation(ctx, inputs, output):
    tensors, *values = inputs
    rope_function.keep_rotation(ctx, tensors, output, _rotation_of(values))


def _backward_of_rotation(ctx, grads):
    needed = ctx.needs_input_grad[0]
    found = rope_function.gradients(ctx, grads, needed, rotate_by_operator)
    return found, *[None] * len(_OWN_FIELDS)


_rotate_op.register_autograd(_backward_of_rotation, setup_context=_keep_rotation)

# A norm beside it

_ROWS = "tensors, Tensor[] weights, Tensor[] sumsqs"


@_operator("norm_rope", f"Tensor[] {_ROWS}, bool for_backward, {_NORM}")
def _norm_rope_op(tensors, weights, sumsqs, for_backward, *values):
    return _run(Rows(tensors, weights, sumsqs), values, for_backward=for_backward)


@_operator("norm_rope_inplace", f"Tensor(a!)[] {_ROWS}, {_NORM}")
def _norm_rope_inplace_op(tensors, weights, sumsqs, *values):
    _run(Rows(tensors, weights, sumsqs), values, inplace=True)


@_norm_rope_op.register_fake
def _(tensors, weights, sumsqs, for_backward, *values):
    return _memory(Rows(tensors, weights, sumsqs), values, for_backward)


def _keep_norm(ctx, inputs, output):
    tensors, weights, sumsqs, _, *values = inputs
    n = len(tensors)
    positions = output[2 * n] if len(output) > 2 * n else None
    found, beside = (output[:n], output[n : 2 * n], positions), output[n:]
    ctx.others = 1 + len(values)  # inputs that have no gradient
    rows = Rows(tensors, weights, sumsqs)
    norm_function.keep_norm(ctx, rows, found, _rotation_of(values), beside)


def _backward_of_norm(ctx, grads):
    needed = ctx.needs_input_grad[:3]
    found = norm_function.gradients(ctx, grads, needed, norm_rope_backward_by_operator)
    return *found, *[None] * ctx.others


_norm_rope_op.register_autograd(_backward_of_norm, setup_context=_keep_norm)


@_operator(
    "norm_rope_backward",
    "Tensor[] grads, Tensor[] kept, Tensor[] rstds, Tensor? positions, Tensor[] weights, "
    f"bool given_sums, {_WANTED}, {_NORM}",
)
def _norm_rope_backward_op(grads, kept, rstds, positions, weights, given_sums, *values):
    wanted, rotation = Wanted._make(values[:3]), _rotation_of(values[3:])
    given = grads, kept, rstds, positions, weights
    found = launch.norm_rope_backward(*given, rotation, given_sums, wanted)
    return [x for row in found for x in row]


@_norm_rope_backward_op.register_fake
def _(grads, kept, rstds, positions, weights, given_sums, *values):
    wanted = Wanted._make(values[:3])
    likes = [*(kept if wanted.inputs else ()), *(weights if wanted.weights else ())]
    outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in likes]
    return outs + ([_one_per_row(x) for x in kept] if wanted.sums else [])


# A projection


@_operator("split_qkv_rope", f"Tensor qkv, {_PACKED}, {_ROTATION}")
def _split_op(qkv, *values):
    packed, rotation = _packed_of(values)
    check_values(rotation, packed.views(qkv)[0].shape[0])
    return list(launch.split_qkv_rope(qkv, packed, rotation))


def _packed_of(values: Sequence) -> tuple[PackedFormat, Rotation]:
    count = len(PackedFormat._fields)
    return PackedFormat._make(values[:count]), _rotation_of(values[count:])


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
    cache, rotation = values[:4], _rotation_of(values[4:])
    inplace = q_out.data_ptr() == q.data_ptr()
    check_written((q, k), inplace, cache, rotation)
    check_values(rotation, len(q))
    launch.rope_to_cache((q, k), (q_out, k_out), cache, rotation)


@_rope_to_cache_op.register_fake
def _(*given):
    return None
