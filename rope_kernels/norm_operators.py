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
    keeps_rstd: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """`norm_launch.norm_rope` as an operator, which torch.compile does not look into."""
    fields = *rotation.tensors, *rotation.options, *norm.fields
    if inplace:
        _norm_rope_inplace_op(tensors, weights, sumsqs, *fields)
        return tuple(tensors), ()
    found = _norm_rope_op(tensors, weights, sumsqs, keeps_rstd, *fields)
    return tuple(found[: len(tensors)]), tuple(found[len(tensors) :])


def norm_rope_backward_by_operator(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    rstds: Sequence[Tensor],
    weights: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    has_sumsq: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """`norm_launch.norm_rope_backward` as an operator."""
    fields = *rotation.tensors, *rotation.options, *norm.fields
    found = _backward_op(grads, kept, rstds, weights, has_sumsq, *fields)
    n, m = len(kept), len(weights)
    return tuple(found[:n]), tuple(found[n : n + m]), tuple(found[n + m :])


def _split(fields: tuple) -> tuple[Rotation, Normalization]:
    return Rotation(*fields[:-_NORM_FIELDS]), Normalization(*fields[-_NORM_FIELDS:])


_NORM_FIELDS = _NORM.count(",") + 1


def _run(tensors, weights, sumsqs, fields, inplace: bool, keeps_rstd: bool):
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    rotation, norm = _split(fields)
    if inplace:
        check_inplace(("q", "k") if len(tensors) == 2 else ("t",), tuple(tensors), rotation)
    check_values(rotation, view_as_sbhd(tensors[0], rotation.tensor_format).shape[0])
    return norm_launch.norm_rope(tensors, weights, sumsqs, rotation, norm, inplace, keeps_rstd)


@torch.library.custom_op(
    "rope_kernels::norm_rope",
    mutates_args=(),
    schema=f"(Tensor[] tensors, Tensor[] weights, Tensor[] sumsqs, bool keeps_rstd, {FIELDS}, "
    f"{_NORM}) -> Tensor[]",
)
def _norm_rope_op(tensors, weights, sumsqs, keeps_rstd, *fields):
    outs, rstds = _run(tensors, weights, sumsqs, fields, inplace=False, keeps_rstd=keeps_rstd)
    return [*outs, *rstds]


@_norm_rope_op.register_fake
def _(tensors, weights, sumsqs, keeps_rstd, *fields):
    outs = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in tensors]
    return outs + ([_one_per_row(t) for t in tensors] if keeps_rstd else [])


@torch.library.custom_op(
    "rope_kernels::norm_rope_inplace",
    mutates_args={"tensors"},
    schema=f"(Tensor(a!)[] tensors, Tensor[] weights, Tensor[] sumsqs, {FIELDS}, {_NORM}) -> ()",
)
def _norm_rope_inplace_op(tensors, weights, sumsqs, *fields):
    _run(tensors, weights, sumsqs, fields, inplace=True, keeps_rstd=False)


@torch.library.custom_op(
    "rope_kernels::norm_rope_backward",
    mutates_args=(),
    schema=f"(Tensor[] grads, Tensor[] kept, Tensor[] rstds, Tensor[] weights, bool has_sumsq, "
    f"{FIELDS}, {_NORM}) -> Tensor[]",
)
def _backward_op(grads, kept, rstds, weights, has_sumsq, *fields):
    rotation, norm = _split(fields)
    found = norm_launch.norm_rope_backward(grads, kept, rstds, weights, rotation, norm, has_sumsq)
    return [x for row in found for x in row]


@_backward_op.register_fake
def _(grads, kept, rstds, weights, has_sumsq, *fields):
    outs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (*kept, *weights)]
    return outs + ([_one_per_row(x) for x in kept] if has_sumsq else [])


def _one_per_row(t: Tensor) -> Tensor:
    return torch.empty(t.shape[:-1], dtype=compute_dtype(t), device=t.device)
