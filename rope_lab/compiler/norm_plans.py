"""What a call that normalizes would launch, forward and backward, found out without a GPU."""

from collections.abc import Callable
from dataclasses import replace

import torch

from rope_kernels import norm_rope, qk_norm_rope
from rope_kernels.call.arguments import Call
from rope_kernels.call.norm_checks import check_norm_call
from rope_kernels.call.rotation import Rotation
from rope_kernels.launch import launch
from rope_kernels.launch.launch import Wanted
from rope_kernels.launch.plan import BackwardTensors, ForwardTensors, Plan, SumTensors
from rope_kernels.machine.engine import Engine
from rope_kernels.machine.modes import wants_grad
from rope_kernels.routes import launches_of, rotation_of, tables_of

from .caught import call_of, caught

FORWARD, BACKWARD, SUM = "forward", "backward", "sum"
NormTensors = ForwardTensors | BackwardTensors | SumTensors
NORMALIZED = norm_rope, qk_norm_rope


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
        'sum', which adds up the gradients of the weights, if they have shape (d,). Gradients are
        contiguous.

    Raises:
        TypeError: another function, or arguments that it does not take.
        ValueError: arguments that do not fit together, or a call that is not one launch forward.
    """
    call = call_of(NORMALIZED, function, *arguments, **options)
    num_positions = check_norm_call(call)
    rotation = rotation_of(call, tables_of(call.freqs), num_positions)
    _refuse_other_ways(call, rotation)
    ((rows, norm),) = launches_of(call)
    rotation = replace(rotation, norm=norm)
    with_backward = wants_grad([x for row in rows for x in row])
    wanted = Wanted(True, wants_grad(rows.weights), len(rows.sumsqs) > 0)
    launches = {}
    with caught(engine) as found:
        _, rstds, positions = launch.norm_rope(*rows, rotation, call.inplace, with_backward)
        launches[FORWARD] = found[0]
        if with_backward:
            grads = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in rows.tensors]
            came = grads, rows.tensors, rstds, positions, rows.weights, rotation
            launch.norm_rope_backward(*came, wanted.sums, wanted)
            launches[BACKWARD] = found[1]
            if wanted.weights and rows.weights[0].dim() == 1:
                launches[SUM] = found[2]
    return launches


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
