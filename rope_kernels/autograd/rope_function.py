"""What autograd does with a rotation: one linear map and its transpose."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..call.rotation import TENSORS, Rotation
from ..launch import launch
from .table_gradient import table_gradients


class RotationFunction(torch.autograd.Function):
    """y = A t, where the matrix A depends on the angles only. For eager calls.

    So the gradient is A^T grad, the gradient's gradient is A again, and nothing of `t` is saved,
    unless the table wants a gradient: one function, with a flag, is its own backward.

    `rotate_gradients(grads, rotation)` is a call of its own: a backward may be traced when the
    forward was not. A traced forward takes the operator of `rope_operator.py`, with the same
    gradients.
    """

    @staticmethod
    def forward(ctx, q, k, table, sin, rotation, inplace, entry, rotate_gradients):
        tensors = (q,) if k is None else (q, k)
        if inplace:
            ctx.mark_dirty(*tensors)
        outs = launch.rotate(tensors, rotation, inplace, entry)
        keep(ctx, tensors, outs, rotation)
        ctx.rotate_gradients = rotate_gradients
        return outs

    @staticmethod
    def backward(ctx, *grads):
        found, *of_tables = gradients(ctx, grads, ctx.needs_input_grad, ctx.rotate_gradients)
        return *(*found, None)[:2], *of_tables, None, None, None, None


# `RotationFunction.apply` without its search for wrappers of torch.func, which `choose_route` and
# the fast path have excluded.
apply_to_plain_tensors = super(torch.autograd.Function, RotationFunction).apply


def keep(ctx, tensors: Sequence[Tensor], outs: Sequence[Tensor], rotation: Rotation) -> None:
    """Save what `gradients` needs: of the rotated tensors nothing, unless a table is trained."""
    tables = rotation.table, rotation.sin
    table_wants = any([x is not None and x.requires_grad for x in tables])
    ctx.save_for_backward(*rotation.tensors, *(tensors if table_wants else ()))
    ctx.options = rotation.options
    ctx.set_materialize_grads(False)
    if not table_wants:
        pairs = zip(tensors, outs, strict=True)
        ctx.mark_non_differentiable(*[out for t, out in pairs if not t.requires_grad])


def gradients(
    ctx, grads: Sequence[Tensor | None], wanted: Sequence[bool], rotate: Callable
) -> tuple[list[Tensor | None], Tensor | None, Tensor | None]:
    """Gradients of the rotated tensors, as far as `wanted`, and of the table and its sines."""
    saved, n = ctx.saved_tensors, len(TENSORS)
    rotation, tensors = Rotation.of((*saved[:n], *ctx.options)), saved[n:]
    found: list[Tensor | None] = [None] * len(grads)
    asked = [i for i, grad in enumerate(grads) if grad is not None and wanted[i]]
    if asked:
        rotation.transpose = not rotation.transpose
        rotated = rotate(tuple([grads[i] for i in asked]), rotation)
        rotation.transpose = not rotation.transpose
        for i, gradient in zip(asked, rotated, strict=True):
            found[i] = gradient
    if not tensors or all(grad is None for grad in grads):
        return found, None, None
    return found, *table_gradients(tuple(tensors), grads, rotation)
