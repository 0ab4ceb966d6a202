"""What a call of the package would launch on a GPU, found out without one.

The call itself runs, down to its launches: these are caught, and nothing is computed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from rope_kernels import autograd, launch, modes, projection
from rope_kernels.modes import Engine


@dataclass(frozen=True)
class Plan:
    """One launch, tensors aside: all that decides which kernel is compiled."""

    kernel: str  # its name
    programs: int  # the grid
    arguments: dict[str, object]  # the kernel's, but for its tensors, by their names
    options: dict[str, object]  # the compiler's


Tensors = tuple[Tensor | None, ...]  # the kernel's, in the order of its arguments
Launch = tuple[Plan, Tensors]


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
    with _caught(Engine.NVIDIA) as launches:
        function(*arguments, **options)
    if len(launches) > 1:
        raise ValueError(f"the call makes {len(launches)} launches; plan each tensor alone")
    return launches[0]


def plans_with_backward(engine: Engine, function: Callable, *arguments, **options) -> list[Launch]:
    """Plan every launch of a call, and of its backward if a tensor requires a gradient.

    How many programs a norm's backward has depends on the number of SMs: that of the GPU the
    tensors are on, and `rope_kernels.norm.SMS_ELSEWHERE` for other devices.

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

    def catch(known, given, prepare) -> None:
        prepared = prepare()
        if prepared is not None:
            name, tensors, *plan = prepared
            found.append((Plan(name, *plan), tensors))

    with ExitStack() as patches:
        for module, name, instead in (
            (modes, "has_values", lambda x: True),  # no kernel will ask for them
            (autograd, "runs_in_triton", lambda t: True),
            (projection, "_check_written", lambda *_: None),  # tensors without memory share it
            (launch, "engine_of", lambda t: engine),
            (launch, "_run", catch),
        ):
            patches.enter_context(patch.object(module, name, instead))
        yield found
    if not found:
        reason = "fused is False, its tensors have no elements, freqs requires a gradient, or it "
        raise ValueError(f"the call launches no kernel: {reason}does not rotate")
