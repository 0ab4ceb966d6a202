"""What autograd does with a rotation: one linear map and its transpose."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..call.rotation import TENSORS, Rotation
from ..launch import launch


class RotationFunction(torch.autograd.Function):
    """y = A t, where the matrix A depends on the angles only. For eager calls.

    So the gradient is A^T grad, the gradient's gradient is A again, and nothing of `t` is saved:
    one function, with a flag, is its own backward.

    `rotate_gradients(grads, rotation)` is a call of its own: a backward may be traced when the
    forward was not. A traced forward takes the operator of `operators.py`, with the same
    gradients.
    """

    @staticmethod
    def forward(ctx, q, k, rotation, inplace, entry, rotate_gradients):
        tensors = (q,) if k is None else (q, k)
        if inplace:
            ctx.mark_dirty(*tensors)
        outs = launch.rotate(tensors, rotation, inplace, entry)
        keep_rotation(ctx, tensors, outs, rotation)
        ctx.rotate_gradients = rotate_gradients
        return outs

    @staticmethod
    def backward(ctx, *grads):
        found = gradients(ctx, grads, ctx.needs_input_grad, ctx.rotate_gradients)
        return *(*found, None)[:2], None, None, None, None


# `RotationFunction.apply` without its search for wrappers of torch.func, which `choose_route` and
# the fast path have excluded.
apply_to_plain_tensors = super(torch.autograd.Function, RotationFunction).apply


Tensors = Sequence[Tensor | None]


def keep(ctx, rotation: Rotation, beside: Tensors, frozen: Tensors) -> None:
    """Save a rotation and what a backward reads beside it. `frozen` outputs have no gradient."""
    ctx.save_for_backward(*rotation.tensors, *beside)
    ctx.options = rotation.options
    ctx.set_materialize_grads(False)
    if frozen:
        ctx.mark_non_differentiable(*frozen)


def kept(ctx) -> tuple[Rotation, Tensors]:
    """What `keep` has saved. A checkpoint lets `ctx.saved_tensors` be read once."""
    saved, n = ctx.saved_tensors, len(TENSORS)
    return Rotation.of((*saved[:n], *ctx.options)), saved[n:]


def keep_rotation(ctx, tensors: Tensors, outs: Tensors, rotation: Rotation) -> None:
    """Keep nothing of the rotated tensors."""
    pairs = zip(tensors, outs, strict=True)
    keep(ctx, rotation, (), [out for t, out in pairs if not t.requires_grad])


def gradients(
    ctx, grads: Sequence[Tensor | None], wanted: Sequence[bool], rotate: Callable
) -> list[Tensor | None]:
    """Gradients of the rotated tensors, as far as `wanted`."""
    rotation, _ = kept(ctx)
    found: list[Tensor | None] = [None] * len(grads)
    asked = [i for i, grad in enumerate(grads) if grad is not None and wanted[i]]
    if asked:
        rotation.transpose = not rotation.transpose
        rotated = rotate(tuple([grads[i] for i in asked]), rotation)
        for i, gradient in zip(asked, rotated, strict=True):
            found[i] = gradient
    return found
