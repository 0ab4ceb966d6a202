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
        saved = *rotation.where, *(tensors if ctx.table_wants else ())
        ctx.save_for_backward(table, sin, *saved)
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
        where = cu_seqlens, start_positions, position_ids
        rotation = Rotation(table, sin, *where, *ctx.options)
        rotation.transpose = not rotation.transpose
        wanted = {
            i: grad for i, grad in enumerate(grads) if grad is not None and ctx.needs_input_grad[i]
        }
        rotated = ctx.rotate_gradients(tuple(wanted.values()), rotation) if wanted else ()
        gradients = dict(zip(wanted, rotated, strict=True))
        table_grad = sin_grad = None
        if ctx.table_wants and any(grad is not None for grad in grads):
            rotation.transpose = not rotation.transpose  # of the forward
            table_grad, sin_grad = table_gradients(tuple(tensors), grads, rotation)
        no_tensors = None, None, None, None, None
        return gradients.get(0), gradients.get(1), table_grad, sin_grad, *no_tensors


# `RotationFunction.apply` without its search for wrappers of torch.func, which `choose_route` and
# the fast path have excluded.
apply_to_plain_tensors = super(torch.autograd.Function, RotationFunction).apply
