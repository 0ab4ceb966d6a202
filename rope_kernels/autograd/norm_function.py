"""What autograd does with a normalized rotation: one launch forward, a few backward."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from .. import reference
from ..call.rotation import Rotation
from ..launch import launch
from ..launch.launch import Wanted
from ..launch.plan import q_and_k
from ..machine.modes import has_memory, is_traced, is_transformed
from .by_pytorch import gradients_by_pytorch
from .rope_function import keep, kept

Tensors = Sequence[Tensor]
Gradients = list[Tensor | None]


class NormRopeFunction(torch.autograd.Function):
    """y = rope(weight * x / rms(x)), or the norm after the rotation. For eager calls."""

    @staticmethod
    def forward(ctx, q, k, q_weight, k_weight, rotation, entry):
        tensors = (q,) if k is None else (q, k)
        n = len(tensors)
        weights = () if q_weight is None else (q_weight, k_weight)[:n]
        rows = Rows(tensors, weights)
        found = launch.norm_rope(*rows, rotation, False, True, entry)
        keep_norm(ctx, rows, found, rotation)
        return found[0]

    @staticmethod
    def backward(ctx, *grads):
        needs, counts = ctx.needs_input_grad, ctx.counts
        wanted = [needs[2 * i : 2 * i + n] for i, n in enumerate(counts[:2])]
        found = gradients(ctx, grads, wanted)
        return *q_and_k(found[0]), *q_and_k(found[1]), None, None


# `NormRopeFunction.apply` without its search for wrappers of torch.func, which `choose_route` has
# excluded.
apply_to_plain_tensors = super(torch.autograd.Function, NormRopeFunction).apply


class OnceDifferentiable(torch.autograd.Function):
    """Gradients as they are, with an error if they are differentiated.

    PyTorch's `once_differentiable` cuts them off from the inputs: `torch.autograd.grad` of a loss
    with a penalty on them then lacks the penalty's gradient, silently.
    """

    @staticmethod
    def forward(ctx, found, *given):
        return found

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("a norm's gradient has no derivative here; fused=False has them all")


class Rows(NamedTuple):
    """The tensors of one launch that may want a gradient."""

    tensors: Tensors  # one or two
    weights: Tensors = ()  # as many, or none


def keep_norm(
    ctx, rows: Rows, found: tuple[Tensors, Tensors, Tensor | None], rotation: Rotation
) -> None:
    """Save what `gradients` needs: x, 1 / rms of each row, and positions of packed tokens."""
    outs, rstds, positions = found
    tensors, weights = rows
    ctx.counts = len(tensors), len(weights), len(rstds)
    frozen = [
        out
        for i, out in enumerate(outs)
        if not (tensors[i].requires_grad or (weights and weights[i].requires_grad))
    ]
    saved = *tensors, *weights, *rstds, positions
    keep(ctx, rotation, saved, frozen)


def gradients(
    ctx, grads: Sequence[Tensor | None], wanted: Sequence[Sequence[bool]]
) -> tuple[Gradients, Gradients]:
    """Gradients of the tensors and of the weights, as far as `wanted`.

    In a trace or a transform, and of many `grads` at once, in a batch, they are those of
    `reference.norm_rope`, by PyTorch.

    Args:
        ctx: after `keep_norm`.
        grads: of the outputs; None of what nobody used.
        wanted: for both: of which gradients are wanted.
    """
    rotation, saved = kept(ctx)
    saved = iter(saved)
    tensors, weights, rstds = [tuple(islice(saved, count)) for count in ctx.counts]
    (positions,) = saved
    n = len(tensors)
    found: tuple[Gradients, Gradients] = [None] * n, [None] * len(weights)
    asked: dict[Wanted, list[int]] = {}  # q and k are of one launch unless they want other things
    for i in range(n):
        what = Wanted(inputs=wanted[0][i], weights=bool(weights) and wanted[1][i])
        if grads[i] is not None and True in what:
            asked.setdefault(what, []).append(i)
    if not asked:
        return found
    given = Rows(tensors, weights)
    if is_traced() or is_transformed() or not all(map(has_memory, grads)):
        return _by_pytorch(grads, given, rotation)
    for what, which in asked.items():
        rows = grads, tensors, rstds, weights
        if len(which) < n:
            rows = [[row[i] for i in which] if row else row for row in rows]
        *own, own_weights = rows
        computed = launch.norm_rope_backward(*own, positions, own_weights, rotation, what)
        for row, of_row in zip(found, computed, strict=True):
            for i, gradient in zip(which, of_row, strict=False):
                row[i] = gradient
    if torch.is_grad_enabled():
        flat = tuple([x for row in found for x in row])
        flat = OnceDifferentiable.apply(flat, *[x for row in given for x in row], *grads)
        found = _like_rows(flat, given)
    return found


def _by_pytorch(
    grads: Sequence[Tensor | None], rows: Rows, rotation: Rotation
) -> tuple[Gradients, Gradients]:
    """The gradients as PyTorch computes them."""

    def normalized(*inputs: Tensor) -> Sequence[Tensor]:
        return reference.norm_rope(*_like_rows(inputs, rows), rotation)

    inputs = [x for row in rows for x in row]
    return _like_rows(gradients_by_pytorch(normalized, inputs, grads), rows)


def _like_rows(values: Sequence, rows: Rows) -> tuple[list, list]:
    values = iter(values)
    return tuple([list(islice(values, len(row))) for row in rows])


def inputs_of(rows: Rows) -> list[Tensor | None]:
    """The first arguments of `NormRopeFunction`."""
    return [x for row in rows for x in q_and_k(row)]
