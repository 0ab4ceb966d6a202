"""What a call that normalizes would launch, forward and backward, found out without a GPU."""

import inspect
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rope_kernels import norm_rope, qk_norm_rope
from rope_kernels.call.arguments import Call, NormCall
from rope_kernels.call.norm_checks import check_norm_call
from rope_kernels.call.positions import shape_of_kept
from rope_kernels.call.rotation import Rotation
from rope_kernels.launch.kernel_plans import plan_backward, plan_norm, plan_sum, shares_of
from rope_kernels.launch.launch import at_positions
from rope_kernels.launch.plan import (
    BackwardTensors,
    ForwardTensors,
    Plan,
    SumTensors,
    as_read,
    q_and_k,
)
from rope_kernels.machine.engine import Engine
from rope_kernels.machine.modes import wants_grad
from rope_kernels.routes import launches_of, rotation_of, tables_of

FORWARD, BACKWARD, SUM = "forward", "backward", "sum"
NormTensors = ForwardTensors | BackwardTensors | SumTensors
NORMALIZED = {  # the tensors to normalize, and their weights, of every function that normalizes
    norm_rope: (("t",), ("weight",)),
    qk_norm_rope: (("q", "k"), ("q_weight", "k_weight")),
}


def plans_of_norm(
    engine: Engine, function: Callable, *arguments, **options
) -> dict[str, tuple[Plan, NormTensors]]:
    """Plan every launch of a call and of its backward, and launch nothing.

    How many programs a backward has depends on the number of SMs: that of the GPU the tensors are
    on, and `rope_kernels.launch.kernel_plans.SMS_ELSEWHERE` for other devices.

    Args:
        engine: what the plans are for.
        function: `norm_rope` or `qk_norm_rope`.
        arguments: its arguments. Tensors may be on any device, the meta device too.
        options: its keyword arguments.

    Returns:
        Each plan and the kernel's tensors: 'forward'; 'backward' if a tensor requires a gradient;
        'sum', which adds up the gradients of the weights, if they have shape (d,). Outputs and
        gradients are on the meta device, and contiguous.

    Raises:
        TypeError: another function, or arguments that it does not take.
        ValueError: arguments that do not fit together, or a call that is not one launch forward.
    """
    call = _call_of(function, *arguments, **options)
    num_positions = check_norm_call(call)
    rotation = rotation_of(call, tables_of(call.freqs), num_positions)
    _refuse_other_ways(call, rotation)
    (((_, weights, sumsqs), norm),) = launches_of(call)
    rotation = replace(rotation, norm=norm)
    with_backward = wants_grad((*call.tensors, *weights, *sumsqs))

    outs = call.tensors if call.inplace else [_new(t, t.shape) for t in call.tensors]
    rstds, positions = [], None
    if with_backward:
        dtype = torch.promote_types(call.tensors[0].dtype, torch.float32)
        rstds = [_new(t, t.shape[:-1], dtype) for t in call.tensors]
        if rotation.cu_seqlens is not None:
            shape = shape_of_kept(rotation, call.tensors[0].shape[0])
            positions = _new(rotation.cu_seqlens, shape, torch.int64)
    pairs = [x for row in (call.tensors, outs, weights, rstds, sumsqs) for x in q_and_k(row)]
    given = as_read(ForwardTensors(*pairs, positions, *rotation.tensors), call.inplace)
    plans = {FORWARD: (plan_norm(given, rotation, engine), given)}
    if with_backward:
        sums = rstds if sumsqs else []
        plans |= _backward(engine, call.tensors, rstds, positions, weights, sums, rotation)
    return plans


def _backward(
    engine: Engine,
    kept: list[Tensor],
    rstds: list[Tensor],
    positions: Tensor | None,
    weights: list[Tensor],
    sumsq_grads: list[Tensor],
    rotation: Rotation,
) -> dict[str, tuple[Plan, NormTensors]]:
    packed, wants_weights = positions is not None, wants_grad(tuple(weights))
    if packed:
        rotation = at_positions(rotation, positions)
    grads = [_new(t, t.shape) for t in kept]
    rows = grads, kept, grads, weights, rstds, sumsq_grads
    pairs = [x for row in rows for x in q_and_k(row)]
    where = rotation.start_positions, rotation.position_ids, rotation.axes
    given = BackwardTensors(*pairs, None, None, rotation.table, rotation.sin, *where)
    given = as_read(given)
    options = wants_weights, len(sumsq_grads) > 0, packed
    plan = plan_backward(given, rotation, *options, engine)
    if not wants_weights:
        return {BACKWARD: (plan, given)}
    shares = shares_of(plan, len(weights))
    of_weights = [_new(w, w.shape) for w in weights]
    partials = [_new(rstds[0], (n, kept[0].shape[-1])) for n in shares] or of_weights
    q_partial, k_partial = q_and_k(partials)
    plans = {BACKWARD: (plan, given._replace(q_partial=q_partial, k_partial=k_partial))}
    if weights[0].dim() == 1:
        added = SumTensors(*q_and_k(partials), *q_and_k(of_weights))
        plans[SUM] = plan_sum(added), added
    return plans


def _call_of(function: Callable, *arguments, **options) -> Call:
    if function not in NORMALIZED:
        accepted = ", ".join(known.__name__ for known in NORMALIZED)
        raise TypeError(f"function is {function!r}; accepted: {accepted}")
    bound = inspect.signature(function).bind(*arguments, **options)
    bound.apply_defaults()
    named = dict(bound.arguments)
    names, weight_names = NORMALIZED[function]
    tensors = tuple([named.pop(name) for name in names])
    weights = tuple([named.pop(name) for name in weight_names])
    sumsq = named.pop("sumsq")
    sumsqs = (None,) * len(tensors) if sumsq is None else sumsq
    sumsqs = (sumsqs,) if isinstance(sumsqs, Tensor) else tuple(sumsqs)
    words = "eps", "weight_offset", "norm_after", "norm_dim"
    options = {word: named.pop(word) for word in words}
    norm = NormCall(weights=weights, sumsqs=sumsqs, **options)
    return Call(tensors=tensors, norm=norm, **named)


def _refuse_other_ways(call: Call, rotation: Rotation) -> None:
    """Raise for calls that plain PyTorch does, or that take a launch for each tensor."""
    came = None
    if call.fused is not True:
        came = f"fused is {call.fused}"
    elif wants_grad((rotation.table, rotation.sin)):
        came = "freqs requires a gradient"
    elif not all(t.numel() for t in call.tensors):
        came = "a tensor has no elements"
    if came is not None:
        raise ValueError(f"{came}; such a call is not one launch, so it has no plan")
    if len(launches_of(call)) > 1:
        came = "q and k differ in norm_dim, or in the dtype or number of dimensions of the weight"
        raise ValueError(f"{came}, so q and k take a launch each; plan each as a norm_rope")


def _new(like: Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
    """A contiguous tensor on the meta device."""
    return torch.empty(shape, dtype=dtype or like.dtype, device="meta")
