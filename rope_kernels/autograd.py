"""The autograd.Function: one linear map and its transpose."""

import torch

from .rotation import Rotation
from .table_gradient import table_gradients


class RotationFunction(torch.autograd.Function):
    """y = A t, where the matrix A depends on the angles only.

    So the gradient is A^T grad, the gradient's gradient is A again, and nothing of `t` is saved,
    unless the table wants a gradient: one function, with a flag, is its own backward.

    `rotate_now(tensors, rotation, inplace, entry)` launches. `rotate_gradients(grads, rotation)` is
    a call of its own: a backward may be traced or differentiated when the forward was not.
    """

    @staticmethod
    def forward(ctx, q, k, table, sin, rotation, inplace, entry, rotate_now, rotate_gradients):
        tensors = (q,) if k is None else (q, k)
        q_wants, k_wants, table_wants, sin_wants = ctx.needs_input_grad[:4]
        ctx.table_wants = table_wants or sin_wants
        ctx.save_for_backward(table, sin, *rotation.where, *(tensors if ctx.table_wants else ()))
        ctx.options, ctx.rotate_gradients = rotation.options, rotate_gradients
        ctx.set_materialize_grads(False)
        if inplace:
            ctx.mark_dirty(*tensors)
        outs = rotate_now(tensors, rotation, inplace, entry)
        if k is not None and not ctx.table_wants:
            wants = zip(outs, (q_wants, k_wants), strict=True)
            ctx.mark_non_differentiable(*(out for out, wanted in wants if not wanted))
        return outs

    @staticmethod
    def backward(ctx, *grads):
        table, sin, cu_seqlens, start_positions, position_ids, *tensors = ctx.saved_tensors
        rotation = Rotation(table, sin, cu_seqlens, start_positions, position_ids, *ctx.options)
        rotation.transpose = not rotation.transpose
        gradients = [None, None]  # of q and k
        wanted = [i for i, g in enumerate(grads) if g is not None and ctx.needs_input_grad[i]]
        if wanted:
            rotated = ctx.rotate_gradients(tuple([grads[i] for i in wanted]), rotation)
            for i, gradient in zip(wanted, rotated, strict=True):
                gradients[i] = gradient
        table_grad = sin_grad = None
        if ctx.table_wants and any(grad is not None for grad in grads):
            rotation.transpose = not rotation.transpose  # of the forward
            table_grad, sin_grad = table_gradients(tuple(tensors), grads, rotation)
        return *gradients, table_grad, sin_grad, None, None, None, None, None


# `RotationFunction.apply` without its search for wrappers of torch.func, which `choose_route` and
# the fast path have excluded.
apply_to_plain_tensors = super(torch.autograd.Function, RotationFunction).apply
