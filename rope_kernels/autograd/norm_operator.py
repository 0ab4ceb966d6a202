"""The launches of `launch_norm.py` as operators of PyTorch, for torch.compile."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..call.arguments import names_of
from ..call.checks import check_inplace, check_values
from ..call.formats import view_as_sbhd
from ..call.normalization import Normalization, Wanted
from ..call.positions import shape_of_kept
from ..call.rotation import FIELDS, Rotation
from ..launch import launch_norm
from ..machine.modes import wants_grad
from ..reference import compute_dtype
from .norm_function import Rows, gradients, keep
from .rope_operator import NAMESPACE, ROTATION, schema_of

_HOW = f"{ROTATION}, {schema_of(Normalization)}"
_WANTED = ", ".join([f"bool wants_{name}" for name in Wanted._fields])


def norm_rope_by_operator(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    inplace: bool,
) -> tuple[Tensor, ...]:
    """`launch_norm.norm_rope` as an operator, differentiable as often as you like.

    In place it is for calls that autograd does not record; `check_norm_call` refuses the others.
    """
    values = *rotation.tensors, *rotation.options, *norm.values
    if inplace:
        _norm_rope_inplace_op(tensors, weights, sumsqs, *values)
        return tuple(tensors)
    for_backward = wants_grad((*tensors, *weights, *sumsqs))
    found = _norm_rope_op(tensors, weights, sumsqs, for_backward, *values)
    return tuple(found[: len(tensors)])


def norm_rope_backward_by_operator(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    rstds: Sequence[Tensor],
    positions: Tensor | None,
    weights: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    given_sums: bool,
    wanted: Wanted,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """`launch_norm.norm_rope_backward` as an operator."""
    values = *wanted, *rotation.tensors, *rotation.options, *norm.values
    found = iter(_backward_op(grads, kept, rstds, positions, weights, given_sums, *values))
    outs = [next(found) for _ in kept] if wanted.inputs else []
    of_weights = [next(found) for _ in weights] if wanted.weights else []
    return outs, of_weights, list(found)


def _split(values: tuple) -> tuple[Rotation, Normalization]:
    n = len(FIELDS)
    return Rotation.of(values[:n]), Normalization.of(values[n:])


def _run(tensors, weights, sumsqs, values, inplace: bool, for_backward: bool):
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    rotation, norm = _split(values)
    if inplace:
        names = names_of(tensors, rotation.transpose)
        beside = [("weight", w) for w in weights] + [("sumsq", x) for x in sumsqs]
        check_inplace(names, tuple(tensors), rotation, beside)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    return launch_norm.norm_rope(tensors, weights, sumsqs, rotation, norm, inplace, for_backward)


@torch.library.custom_op(
    f"{NAMESPACE}::norm_rope",
    mutates_args=(),
    schema=f"(Tensor[] tensors, Tensor[] weights, Tensor[] sumsqs, bool for_backward, {_HOW}) "
    "-> Tensor[]",
)
def _norm_rope_op(tensors, weights, sumsqs, for_backward, *values):
    found = _run(tensors, weights, sumsqs, values, inplace=False, for_backward=for_backward)
    outs, rstds, positions = found
    return [*outs, *rstds, *(() if positions is None else (positions,))]


@_norm_rope_op.register_fake
def _(tensors, weights, sumsqs, for_backward, *values):
    rotation, _ = _split(values)
    outs = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in tensors]
    if not for_backward:
        return outs
    outs += [_one_per_row(t) for t in tensors]
    if rotation.cu_seqlens is None:
        return outs
    shape = shape_of_kept(rotation, tensors[0].shape[0])
    return [*outs, rotation.cu_seqlens.new_empty(shape, dtype=torch.int64)]


def _setup_context(ctx, inputs, output):
    tensors, weights, sumsqs, _, *values = inputs
    n = len(tensors)
    rotation, norm = _split(values)
    positions = output[2 * n] if len(output) > 2 * n else None
    beside = output[n:]  # what the backward needs and nobody can use
    ctx.others = 1 + len(values)  # inputs that have no gradient
    rows = Rows(tensors, weights, sumsqs)
    keep(ctx, rows, (output[:n], output[n : 2 * n], positions), rotation, norm, beside)


def _backward(ctx, grads):
    found = gradients(ctx, grads, ctx.needs_input_grad[:3], norm_rope_backward_by_operator)
    return *found, *[None] * ctx.others


_norm_rope_op.register_autograd(_backward, setup_context=_setup_context)


@torch.library.custom_op(
    f"{NAMESPACE}::norm_rope_inplace",
    mutates_args={"tensors"},
    schema=f"(Tensor(a!)[] tensors, Tensor[] weights, Tensor[] sumsqs, {_HOW}) -> ()",
)
def _norm_rope_inplace_op(tensors, weights, sumsqs, *values):
    _run(tensors, weights, sumsqs, values, inplace=True, for_backward=False)


@torch.library.custom_op(
    f"{NAMESPACE}::norm_rope_backward",
    mutates_args=(),
    schema="(Tensor[] grads, Tensor[] kept, Tensor[] rstds, Tensor? positions, Tensor[] weights, "
    f"bool given_sums, {_WANTED}, {_HOW}) -> Tensor[]",
)
def _backward_op(grads, kept, rstds, positions, weights, given_sums, *values):
    n = len(Wanted._fields)
    wanted = Wanted._make(values[:n])
    rotation, norm = _split(values[n:])
    found = launch_norm.norm_rope_backward(
        grads, kept, rstds, positions, weights, rotation, norm, given_sums, wanted
    )
    return [x for row in found for x in row]


@_backward_op.register_fake
def _(grads, kept, rstds, positions, weights, given_sums, *values):
    wanted = Wanted._make(values[: len(Wanted._fields)])
    likes = [*(kept if wanted.inputs else ()), *(weights if wanted.weights else ())]
    outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in likes]
    return outs + ([_one_per_row(x) for x in kept] if wanted.sums else [])


def _one_per_row(t: Tensor) -> Tensor:
    return torch.empty(t.shape[:-1], dtype=compute_dtype(t), device=t.device)
