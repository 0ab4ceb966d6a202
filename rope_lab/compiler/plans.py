"""What a call of the package would launch on a GPU, found out without one.

The call itself runs, down to its launches: these are caught, and nothing is computed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from rope_kernels import routes
from rope_kernels.autograd import norm_function, split_function
from rope_kernels.launch import fastpath, kernel_plans, launch
from rope_kernels.launch.plan import Plan, Tensors
from rope_kernels.machine.engine import Engine
from rope_kernels.routes import KERNEL, Route

Launch = tuple[Plan, Tensors]
_LOCK = threading.Lock()


def plan_of(function: Callable, *arguments, **options) -> Launch:
    """Plan the launch that a call would make on an NVIDIA GPU, and launch nothing.

    Args:
        function: a function of the package that rotates, as `rope_fw`, or one that calls it.
        arguments: its arguments. Tensors may be on any device, the meta device too; neither
            their values nor their memory is looked at.
        options: its keyword arguments.

    Returns:
        The plan, and the tensors that the kernel would take. Nothing is written to its outputs.

    Raises:
        TypeError, ValueError: the function's own, of arguments that it does not take.
        ValueError: the call is not one launch.
    """
    return plan_for(Engine.NVIDIA, function, *arguments, **options)


def plan_for(engine: Engine, function: Callable, *arguments, **options) -> Launch:
    """Plan the launch that a call would make with this engine, as `plan_of` does for NVIDIA."""
    with _caught(engine) as launches:
        function(*arguments, **options)
    if len(launches) > 1:
        raise ValueError(f"the call makes {len(launches)} launches; plan each tensor alone")
    return launches[0]


def plans_with_backward(engine: Engine, function: Callable, *arguments, **options) -> list[Launch]:
    """Plan every launch of a call, and of its backward if a tensor requires a gradient.

    How many programs a norm's backward has depends on the number of SMs: that of the GPU the
    tensors are on, and `rope_kernels.launch.kernel_plans.SMS_ELSEWHERE` for other devices.

    Args:
        engine: what the plans are for.
        function, arguments, options: as of `plan_of`.

    Returns:
        Each plan and the kernel's tensors, in the order of the launches. After a backward of
        norms comes what adds up the gradients of their weights.

    Raises:
        TypeError, ValueError: as `plan_of`, but a call may take several launches.
    """
    with _caught(engine) as launches:
        outs = tree_leaves(function(*arguments, **options))
        outs = [out for out in outs if out.requires_grad]
        leaves = tree_leaves((arguments, options))
        given = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
        if outs:
            torch.autograd.grad(outs, given, [torch.empty_like(out) for out in outs])
    return launches


@contextmanager
def _caught(engine: Engine) -> Iterator[list[Launch]]:
    """Plan each launch for this engine, and catch it: the plan, the kernel's tensors.

    Results are allocated where the tensors are, the meta device too; nothing is written to them.
    """
    found: list[Launch] = []
    with (
        _LOCK,
        patch.object(routes, "choose_route", _kernel),
        patch.object(routes, "check_values", lambda *_: None),
        patch.object(routes, "check_written", lambda *_: None),
        patch.object(routes, "check_inplace", lambda *_: None),
        patch.object(norm_function, "has_memory", lambda x: True),
        patch.object(split_function, "has_memory", lambda x: True),
        patch.object(launch, "run", lambda *planned: found.append(planned)),
        patch.object(kernel_plans, "engine_of", lambda t: engine),
        patch.object(fastpath, "ENABLED", False),  # it remembers what was launched before
    ):
        yield found
    if not found:
        reason = "its tensors have no elements, freqs requires a gradient, or it does not rotate"
        raise ValueError(f"the call launches no kernel, so it has no plan: {reason}")


def _kernel(fused: bool, tensors: tuple[Tensor | None, ...]) -> Route:
    if fused is not True:
        raise ValueError(f"fused is {fused}; such a call launches no kernel, so it has no plan")
    return KERNEL
