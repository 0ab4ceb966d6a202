"""Gradients of tensors and of weights: by the kernels, and from the second on by PyTorch."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..autograd import count_as_written, gradients_by_pytorch, keep, kept
from ..launch import Known, known_of, pair
from ..modes import have_memory, is_traced, is_transformed, wants_grad
from ..rotation import Rotation
from .definition import Norm, Tensors, Weights, normalize_and_rotate
from .launches import launch_backward, launch_forward


def by_kernel(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    """One launch for q and k; a launch each where their weights differ in dtype."""
    if len({None if weight is None else weight.dtype for weight in weights}) > 1:
        outs: Tensors = ()
        for t, weight in zip(tensors, weights, strict=True):
            known_alone = known_of((t, weight), rotation, *norm, inplace)
            outs += by_kernel((t,), (weight,), rotation, norm, inplace=inplace, known=known_alone)
        return outs
    if wants_grad((*tensors, *weights)):
        q, k = pair(tensors)
        q_weight, k_weight = pair(weights)
        return NormFunction.apply(q, k, q_weight, k_weight, rotation, norm, known)
    outs = launch_forward(tensors, weights, rotation, norm, inplace=inplace, known=known)
    if inplace:
        count_as_written(outs)
    return outs


class NormFunction(torch.autograd.Function):
    """Keeps nothing but what the forward was given."""

    @staticmethod
    def forward(ctx, q, k, q_weight, k_weight, rotation, norm, known):
        n = 1 if k is None else 2
        tensors, weights = (q, k)[:n], (q_weight, k_weight)[:n]
        outs = launch_forward(tensors, weights, rotation, norm, False, known)
        needs = ctx.needs_input_grad
        frozen = [out for i, out in enumerate(outs) if not (needs[i] or needs[2 + i])]
        keep(ctx, rotation, (*tensors, *weights), frozen)
        ctx.norm = norm
        return outs

    @staticmethod
    def backward(ctx, *grads):
        rotation, saved = kept(ctx)
        n, needs = len(grads), ctx.needs_input_grad
        wanted = [(needs[i], needs[2 + i]) for i in range(n)]
        found = _gradients(grads, saved[:n], saved[n:], wanted, rotation, ctx.norm)
        return *pair(tuple(found[:n])), *pair(tuple(found[n:])), None, None, None


class KernelGradients(torch.autograd.Function):
    """Gradients by the kernel as they are, whose derivatives PyTorch computes."""

    @staticmethod
    def forward(ctx, found, differentiate, *given):
        ctx.save_for_backward(*given)
        ctx.set_materialize_grads(False)
        ctx.differentiate = differentiate
        return found

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *gradients_by_pytorch(ctx.differentiate, ctx.saved_tensors, grads)


def _gradients(
    grads: Sequence[Tensor | None],
    tensors: Tensors,
    weights: Weights,
    wanted: Sequence[tuple[bool, bool]],
    rotation: Rotation,
    norm: Norm,
) -> list[Tensor | None]:
    """Gradients of the tensors and of the weights, as far as they are `wanted` of each.

    In a trace or a transform, and of many `grads` at once, in a batch, PyTorch computes them.
    """
    n = len(tensors)
    found: list[Tensor | None] = [None] * (2 * n)
    asked: dict[tuple[bool, bool], list[int]] = {}  # of one launch if they want the same
    for i, what in enumerate(wanted):
        if grads[i] is not None and any(what):
            asked.setdefault(what, []).append(i)
    if not asked:
        return found
    rows = *tensors, *weights
    if is_traced() or is_transformed() or not have_memory(grads):
        return _gradients_by_pytorch(rotation, norm, *rows, *grads)
    for (inputs, of_weights), which in asked.items():
        chosen = [tuple([row[i] for i in which]) for row in (tensors, grads, weights)]
        outs, shares = launch_backward(*chosen, rotation, norm, inputs, of_weights)
        for place, i in enumerate(which):
            found[i], found[n + i] = outs[place], shares[place]
    if torch.is_grad_enabled():
        again = partial(_gradients_by_pytorch, rotation, norm)
        found = list(KernelGradients.apply(tuple(found), again, *rows, *grads))
    return found


def _gradients_by_pytorch(
    rotation: Rotation, norm: Norm, *given: Tensor | None
) -> list[Tensor | None]:
    """The same of tensors, weights and their `grads`, as many of each; differentiable."""
    n = len(given) // 3

    def normalized(*rows: Tensor) -> Tensors:
        return normalize_and_rotate(rows[:n], rows[n:], rotation, norm)

    return gradients_by_pytorch(normalized, given[: 2 * n], given[2 * n :])
