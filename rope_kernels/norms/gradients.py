"""Gradients of tensors and weights, by kernels; higher derivatives are computed by PyTorch."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..autograd import Context, count_as_written, gradients_by_pytorch, keep, kept
from ..launch import Known, known_of_rotation, q_and_k
from ..paths import apply_without_functorch, have_memory, is_traced, is_transformed, wants_grad
from ..rotation import Rotation
from .definition import Gradients, Norm, Tensors, Weights, normalize_and_rotate
from .launches import launch_backward, launch_forward


def by_kernel(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    """Normalize and rotate q and k in one launch, or in two if their weights differ in dtype."""
    if len({None if weight is None else weight.dtype for weight in weights}) > 1:
        outs: Tensors = ()
        for t, weight in zip(tensors, weights, strict=True):
            known_alone = known_of_rotation((t, weight), rotation, norm, inplace)
            outs += by_kernel((t,), (weight,), rotation, norm, inplace=inplace, known=known_alone)
        return outs
    if wants_grad((*tensors, *weights)):
        q, k = q_and_k(tensors)
        q_weight, k_weight = q_and_k(weights)
        return _record(q, k, q_weight, k_weight, rotation, norm, known)
    outs = launch_forward(tensors, weights, rotation, norm, inplace=inplace, known=known)
    if inplace:
        count_as_written(outs)
    return outs


class NormFunction(torch.autograd.Function):
    """A norm and a rotation in an eager call. It saves only the inputs of the forward."""

    @staticmethod
    def forward(
        ctx: Context,
        q: Tensor,
        k: Tensor | None,
        q_weight: Tensor | None,
        k_weight: Tensor | None,
        rotation: Rotation,
        norm: Norm,
        known: Known | None,
    ) -> Tensors:
        tensors, weights = ((q,), (q_weight,)) if k is None else ((q, k), (q_weight, k_weight))
        outs = launch_forward(tensors, weights, rotation, norm, inplace=False, known=known)
        wanted = _wanted(ctx, len(outs))
        frozen = [out for out, what in zip(outs, wanted, strict=True) if not any(what)]
        keep(ctx, rotation, (*tensors, *weights), frozen, extra=norm)
        return outs

    @staticmethod
    def backward(ctx: Context, *grads: Tensor | None) -> Gradients:
        rotation, saved = kept(ctx)
        norm, count = ctx.extra, len(grads)
        assert isinstance(norm, Norm), "the forward has kept it"
        found = _gradients(
            grads,
            tensors=tuple(saved[:count]),  # type: ignore[arg-type]  # only weights may be None
            weights=tuple(saved[count:]),
            wanted=_wanted(ctx, count),
            rotation=rotation,
            norm=norm,
        )
        q_grad, k_grad = q_and_k(found[:count])
        q_weight_grad, k_weight_grad = q_and_k(found[count:])
        return q_grad, k_grad, q_weight_grad, k_weight_grad, None, None, None


_record = apply_without_functorch(NormFunction)


def _wanted(ctx: Context, count: int) -> list[tuple[bool, bool]]:
    """For each of `count` tensors: whether its gradient is wanted, and whether its weight's is."""
    of_q, of_k, of_q_weight, of_k_weight, *_ = ctx.needs_input_grad
    return [(of_q, of_q_weight), (of_k, of_k_weight)][:count]


class KernelGradients(torch.autograd.Function):
    """Returns gradients that a kernel has computed. PyTorch computes their derivatives."""

    @staticmethod
    def forward(
        ctx: Context,
        found: Gradients,
        differentiate: Callable[..., Sequence[Tensor | None]],
        *given: Tensor | None,
    ) -> Gradients:
        ctx.save_for_backward(*given)  # type: ignore[arg-type]  # may be None
        ctx.set_materialize_grads(False)
        ctx.extra = differentiate
        return found

    @staticmethod
    def backward(ctx: Context, *grads: Tensor | None) -> Gradients:
        assert callable(ctx.extra), "the forward has kept it"
        return None, None, *gradients_by_pytorch(ctx.extra, ctx.saved_tensors, grads)


def _gradients(
    grads: Sequence[Tensor | None],
    tensors: Tensors,
    weights: Weights,
    wanted: Sequence[tuple[bool, bool]],
    rotation: Rotation,
    norm: Norm,
) -> Gradients:
    """Gradients of the tensors, then of the weights; None for those that are not `wanted`.

    PyTorch computes them in a trace, in a transform, and if `grads` are a batch of gradients.
    """
    count = len(tensors)
    found: list[Tensor | None] = [None] * (2 * count)
    # Tensors with the same wanted gradients share a launch. For each launch, these are the tensors'
    # numbers and their `grads`.
    asked: dict[tuple[bool, bool], list[tuple[int, Tensor]]] = {}
    for i, (grad, what) in enumerate(zip(grads, wanted, strict=True)):
        if grad is not None and any(what):
            asked.setdefault(what, []).append((i, grad))
    if not asked:
        return tuple(found)
    if is_traced() or is_transformed() or not have_memory(grads):
        return tuple(_gradients_by_pytorch(tensors, weights, grads, rotation=rotation, norm=norm))
    for (wants_inputs, wants_weights), numbered in asked.items():
        numbers = [i for i, _ in numbered]
        of_tensors, of_weights = launch_backward(
            tensors=tuple([tensors[i] for i in numbers]),
            grads=tuple([grad for _, grad in numbered]),
            weights=tuple([weights[i] for i in numbers]),
            rotation=rotation,
            norm=norm,
            wants_inputs=wants_inputs,
            wants_weights=wants_weights,
        )
        for place, i in enumerate(numbers):
            found[i], found[count + i] = of_tensors[place], of_weights[place]
    if torch.is_grad_enabled():
        *_, first_position, transpose, options = rotation

        def again(*given: Tensor | None) -> list[Tensor | None]:
            """The same gradients in plain PyTorch, from the tensors that `KernelGradients` saved.

            Those of the rotation are among them, so that PyTorch notices if one is overwritten.
            """
            table, sin, cu_seqlens, starts, ids, *inputs = given
            assert table is not None, "each rotation has a table"
            saved = Rotation(
                table, sin, cu_seqlens, starts, ids, first_position, transpose, options
            )  # fmt: skip
            return _gradients_by_pytorch(
                tensors=inputs[:count],
                weights=inputs[count : 2 * count],
                grads=inputs[2 * count :],
                rotation=saved,
                norm=norm,
            )

        recorded: Gradients = KernelGradients.apply(  # type: ignore[no-untyped-call]  # no types
            tuple(found), again, *rotation.tensors, *tensors, *weights, *grads
        )
        return recorded
    return tuple(found)


def _gradients_by_pytorch(
    tensors: Sequence[Tensor | None],
    weights: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
    rotation: Rotation,
    norm: Norm,
) -> list[Tensor | None]:
    """The same gradients in plain PyTorch, differentiable any number of times."""
    count = len(tensors)

    def normalized(*inputs: Tensor) -> Tensors:
        return normalize_and_rotate(inputs[:count], inputs[count:], rotation, norm)

    return gradients_by_pytorch(normalized, inputs=(*tensors, *weights), grads=grads)
