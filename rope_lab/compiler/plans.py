"""What a call of the package would launch on a GPU, found out without one."""

from collections.abc import Callable

from rope_kernels import apply_rotary_pos_emb, rope_bw, rope_fw, rope_qk
from rope_kernels.call.checks import check_call
from rope_kernels.launch import launch
from rope_kernels.launch.plan import Plan, RopeTensors
from rope_kernels.machine.engine import Engine
from rope_kernels.routes import rotation_of, tables_of

from .caught import call_of, caught
from .norm_plans import FORWARD, NORMALIZED, NormTensors, plans_of_norm

_KNOWN = apply_rotary_pos_emb, rope_fw, rope_bw, rope_qk, *NORMALIZED


def plan_of(function: Callable, *arguments, **options) -> tuple[Plan, RopeTensors | NormTensors]:
    """Plan the launch that a call would make on an NVIDIA GPU, and launch nothing.

    Args:
        function: `apply_rotary_pos_emb`, `rope_fw`, `rope_bw` or `rope_qk`; `norm_rope` or
            `qk_norm_rope`, whose backward `plans_of_norm` plans.
        arguments: its arguments. Tensors may be on any device, the meta device too; their values
            are neither read nor checked.
        options: its keyword arguments.

    Returns:
        The plan, and the tensors that the kernel would take. Nothing is written to its outputs.

    Raises:
        TypeError: another function, or arguments that it does not take.
        ValueError: arguments that do not fit together, or a call that launches nothing.
    """
    return plan_for(Engine.NVIDIA, function, *arguments, **options)


def plan_for(
    engine: Engine, function: Callable, *arguments, **options
) -> tuple[Plan, RopeTensors | NormTensors]:
    """Plan the launch that a call would make with this engine, as `plan_of` does for NVIDIA."""
    if function in NORMALIZED:
        return plans_of_norm(engine, function, *arguments, **options)[FORWARD]
    call = call_of(_KNOWN, function, *arguments, **options)
    num_positions = check_call(call)
    rotation = rotation_of(call, tables_of(call.freqs), num_positions)
    with caught(engine) as launches:
        if call.fused is True:
            launch.rotate(call.tensors, rotation, call.inplace, None)
    if not launches:
        came = f"fused is {call.fused}"
        if call.fused is True:
            came = "the tensors have no elements"
        raise ValueError(f"{came}; such a call launches no kernel, so it has no plan")
    return launches[0]
