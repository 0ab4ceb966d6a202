"""What autograd does with a projection that is split and rotated: one packed gradient."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import reference
from ..call.packed_format import PackedFormat
from ..call.rotation import Rotation
from ..launch import launch
from ..machine.modes import has_memory, is_traced, is_transformed
from .by_pytorch import gradients_by_pytorch
from .rope_function import keep, kept


class SplitFunction(torch.autograd.Function):
    """q, k, v = split(qkv), and q and k rotated: a linear map. For eager calls.

    A traced forward takes the operator of `operators.py`, which has the same gradient.
    """

    @staticmethod
    def forward(ctx, qkv, packed, rotation, entry, run_backward):
        outs = launch.split_qkv_rope(qkv, packed, rotation, entry)
        keep_split(ctx, qkv, packed, rotation)
        ctx.run_backward = run_backward
        return outs

    @staticmethod
    def backward(ctx, *grads):
        return gradient(ctx, grads, ctx.run_backward), None, None, None, None


# `SplitFunction.apply` without its search for wrappers of torch.func, which `choose_route` has
# excluded.
apply_to_plain_tensors = super(torch.autograd.Function, SplitFunction).apply


def keep_split(ctx, qkv: Tensor, packed: PackedFormat, rotation: Rotation) -> None:
    """Save what `gradient` needs: nothing of the projection but its shape."""
    keep(ctx, rotation, (), ())
    ctx.packed, ctx.shape = packed, qkv.shape


def gradient(ctx, grads: Sequence[Tensor | None], run: Callable) -> Tensor | None:
    """The gradient of the projection.

    The kernel takes gradients of all three outputs. Second derivatives, gradients in a transform,
    and those where one was not used, are those of `reference.split_qkv_rope`, by PyTorch.

    Args:
        ctx: after `keep_split`.
        grads: of q, k and v; None of what nobody used.
        run: `launch.split_qkv_rope_backward`, or the operator of it.
    """
    rotation, _ = kept(ctx)
    came = [grad for grad in grads if grad is not None]
    if not came:
        return None
    by_kernel = not torch.is_grad_enabled() and len(came) == len(grads)
    if by_kernel and (is_traced() or (not is_transformed() and all(map(has_memory, came)))):
        return run(grads, ctx.packed, rotation)
    # A linear map has the same derivative everywhere. These zeros are no batch, as `grads` may be.
    like = {"dtype": came[0].dtype, "device": came[0].device, "requires_grad": True}
    qkv = torch.zeros(ctx.shape, **like)

    def split(qkv: Tensor) -> Sequence[Tensor]:
        return reference.split_qkv_rope(qkv, ctx.packed, rotation)

    return gradients_by_pytorch(split, (qkv,), grads)[0]
