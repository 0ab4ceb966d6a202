"""What autograd does with a projection that is split and rotated: one packed gradient."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import reference
from ..call.packed_format import PackedFormat
from ..call.rotation import Rotation
from ..launch import launch
from ..launch.launch import Wanted
from ..machine.modes import has_memory, is_traced
from .by_pytorch import gradients_by_pytorch
from .rope_function import keep, kept


class SplitFunction(torch.autograd.Function):
    """q, k, v = split(qkv), q and k rotated, and normalized if there is a norm. For eager calls.

    A traced forward takes the operator of `operators.py`, which has the same gradients.
    """

    @staticmethod
    def forward(ctx, qkv, q_weight, k_weight, packed, rotation, entry, run_backward):
        weights = () if q_weight is None else (q_weight, k_weight)
        normalizes = rotation.norm is not None
        found = launch.split_qkv_rope(qkv, weights, packed, rotation, normalizes, entry)
        keep_split(ctx, qkv, weights, found, packed, rotation)
        ctx.run_backward = run_backward
        return found[0]

    @staticmethod
    def backward(ctx, *grads):
        gradient, of_weights = gradients(ctx, grads, ctx.needs_input_grad[:3], ctx.run_backward)
        return gradient, *(*of_weights, None, None)[:2], None, None, None, None


# `SplitFunction.apply` without its search for wrappers of torch.func, which `choose_route` has
# excluded.
apply_to_plain_tensors = super(torch.autograd.Function, SplitFunction).apply


def keep_split(
    ctx,
    qkv: Tensor,
    weights: Sequence[Tensor],
    found: tuple[Sequence[Tensor], Sequence[Tensor], Tensor | None],
    packed: PackedFormat,
    rotation: Rotation,
    beside: Sequence[Tensor] = (),
) -> None:
    """Save what `gradients` needs: of a rotation alone nothing of the projection.

    `beside` are outputs that only the backward uses.
    """
    outs, rstds, positions = found
    trained = [w.requires_grad for w in weights] or [False, False]
    frozen = []
    if not qkv.requires_grad:
        frozen = [out for out, w in zip(outs, (*trained, False), strict=True) if not w]
    saved = None if rotation.norm is None else qkv
    keep(ctx, rotation, (saved, positions, *weights, *rstds), [*frozen, *beside])
    ctx.packed, ctx.shape, ctx.count = packed, qkv.shape, len(weights)


def gradients(
    ctx, grads: Sequence[Tensor | None], wanted: Sequence[bool], run: Callable
) -> tuple[Tensor | None, Sequence[Tensor | None]]:
    """Gradients of the projection and of the weights, as far as `wanted`.

    The kernels take gradients of all three outputs. Second derivatives, and gradients where one was
    not used, are those of `reference.split_qkv_rope`, by PyTorch.

    Args:
        ctx: after `keep_split`.
        grads: of q, k and v; None of what nobody used.
        wanted: of the projection, and of each weight.
        run: `launch.split_qkv_rope_backward`, or the operator of it.
    """
    rotation, (qkv, positions, *others) = kept(ctx)
    weights, rstds, grads = others[: ctx.count], others[ctx.count :], tuple(grads[:3])
    what = Wanted(inputs=wanted[0], weights=any(wanted[1 : 1 + ctx.count]), sums=False)
    came = [grad for grad in grads if grad is not None]
    if not came or True not in what:
        return None, ()
    needed = grads if what.inputs else grads[:2]  # v's goes to the projection alone
    # a graph that was traced without gradients has no rstds, and may be run with some
    by_kernel = not torch.is_grad_enabled() and (rotation.norm is None or rstds)
    by_kernel = by_kernel and not any([grad is None for grad in needed])
    if by_kernel and (is_traced() or all(map(has_memory, needed))):
        return run(needed, qkv, rstds, positions, weights, ctx.packed, rotation, what)
    if qkv is None:  # a linear map has the same derivative everywhere
        like = {"dtype": came[0].dtype, "device": came[0].device, "requires_grad": True}
        qkv = torch.zeros(ctx.shape, **like)  # of its own: a gradient may be a batch of them

    def split(qkv: Tensor, *weights: Tensor) -> Sequence[Tensor]:
        return reference.split_qkv_rope(qkv, weights, ctx.packed, rotation)

    gradient, *of_weights = gradients_by_pytorch(split, (qkv, *weights), grads)
    return gradient, of_weights
