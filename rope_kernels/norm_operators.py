"""The launches of `norm_launch.py` as operators of PyTorch, for torch.compile."""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import norm_launch
from .checks import check_inplace, check_values
from .formats import view_as_sbhd
from .normalization import Normalization
from .operators import FIELDS
from .reference import compute_dtype
from .rotation import Rotation

_NORM = "float eps, float weight_offset, bool after, bool like_model, SymInt dim, bool from_output"


def norm_rope_by_operator(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    inplace: bool,
    for_backward: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor | None]:
    """`norm_launch.norm_rope` as an operator, which torch.compile does not look into."""
    fields = *rotation.tensors, *rotation.options, *norm.fields
    if inplace:
        _norm_rope_inplace_op(tensors, weights, sumsqs, *fields)
        return tuple(tensors), (), None
    found = _norm_rope_op(tensors, weights, sumsqs, for_backward, *fields)
    n = len(tensors)
    return tuple(found[:n]), tuple(found[n : 2 * n]), (*found[2 * n :], None)[0]


def norm_rope_backward_by_operator(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    rstds: Sequence[Tensor],
    positions: Tensor | None,
    weights: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    has_sumsq: bool,
    wants_weights: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """`norm_launch.norm_rope_backward` as an operator."""
    fields = *rotation.tensors, *rotation.options, *norm.fields
    options = has_sumsq, wants_weights
    found = _backward_op(grads, kept, rstds, positions, weights, *options, *fields)
    n, m = len(kept), len(weights) if wants_weights else 0
    return tuple(found[:n]), tuple(found[n : n + m]), tuple(found[n + m :])


def _split(fields: tuple) -> tuple[Rotation, Normalization]:
    return Rotation(*fields[:-_NORM_FIELDS]), Normalization(*fields[-_NORM_FIELDS:])


_NORM_FIELDS = _NORM.count(",") + 1


def _run(tensors, weights, sumsqs, fields, inplace: bool, for_backward: bool):
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    rotation, norm = _split(fields)
    if inplace:
        names = ("q", "k") if len(tensors) == 2 else ("t",)
        beside = [("weight", w) for w in weights] + [("sumsq", x) for x in sumsqs]
        check_inplace(names, tuple(tensors), rotation, beside)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    return norm_launch.norm_rope(tensors, weights, sumsqs, rotation, norm, inplace, for_backward)


@torch.library.custom_op(
    "rope_kernels::norm_rope",
    mutates_args=(),
    schema=f"(Tensor[] tensors, Tensor[] weights, Tensor[] sumsqs, bool for_backward, {FIELDS}, "
    f"{_NORM}) -> Tensor[]",
)
def _norm_rope_op(tensors, weights, sumsqs, for_backward, *fields):
    found = _run(tensors, weights, sumsqs, fields, inplace=False, for_backward=for_backward)
    outs, rstds, positions = found
    return [*outs, *rstds, *(() if positions is None else (positions,))]


@_norm_rope_op.register_fake
def _(tensors, weights, sumsqs, for_backward, *fields):
    rotation, _ = _split(fields)
    outs = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in tensors]
    if not for_backward:
        return outs
    outs += [_one_per_row(t) for t in tensors]
    if rotation.cu_seqlens is None:
        return outs
    return [*outs, rotation.cu_seqlens.new_empty(tensors[0].shape[0], dtype=torch.int64)]


@torch.library.custom_op(
    "rope_kernels::norm_rope_inplace",
    mutates_args={"tensors"},
    schema=f"(Tensor(a!)[] tensors, Tensor[] weights, Tensor[] sumsqs, {FIELDS}, {_NORM}) -> ()",
)
def _norm_rope_inplace_op(tensors, weights, sumsqs, *fields):
    _run(tensors, weights, sumsqs, fields, inplace=True, for_backward=False)


@torch.library.custom_op(
    "rope_kernels::norm_rope_backward",
    mutates_args=(),
    schema="(Tensor[] grads, Tensor[] kept, Tensor[] rstds, Tensor? positions, Tensor[] weights, "
    f"bool has_sumsq, bool wants_weights, {FIELDS}, {_NORM}) -> Tensor[]",
)
def _backward_op(grads, kept, rstds, positions, weights, has_sumsq, wants_weights, *fields):
    rotation, norm = _split(fields)
    found = norm_launch.norm_rope_backward(
        grads, kept, rstds, positions, weights, rotation, norm, has_sumsq, wants_weights
    )
    return [x for row in found for x in row]


@_backward_op.register_fake
def _(grads, kept, rstds, positions, weights, has_sumsq, wants_weights, *fields):
    likes = (*kept, *weights) if wants_weights else kept
    outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in likes]
    return outs + ([_one_per_row(x) for x in kept] if has_sumsq else [])


def _one_per_row(t: Tensor) -> Tensor:
    return torch.empty(t.shape[:-1], dtype=compute_dtype(t), device=t.device)
