"""What a call of the package would launch on a GPU, found out without one.

The call itself runs, down to its launches: these are caught, and nothing is computed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from torch import Tensor

from rope_kernels import launch, modes, projection, ways
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
    with _caught() as launches:
        function(*arguments, **options)
    if len(launches) > 1:
        raise ValueError(f"the call makes {len(launches)} launches; plan each tensor alone")
    return launches[0]


@contextmanager
def _caught() -> Iterator[list[Launch]]:
    """Plan each launch, and catch it: the plan, the kernel's tensors.

    Results are allocated where the tensors are, the meta device too; nothing is written to them.
    """
    found: list[Launch] = []

    def catch(known, given, prepare, numbers) -> None:
        prepared = prepare()
        if prepared is not None:
            name, tensors, *plan = prepared
            found.append((Plan(name, *plan), tensors))

    with ExitStack() as patches:
        for module, name, instead in (
            (modes, "has_values", lambda x: True),  # no kernel will ask for them
            (ways, "runs_in_triton", lambda t: True),
            (projection, "_check_written", lambda *_: None),  # tensors without memory share it
            (launch, "engine_of", lambda t: Engine.NVIDIA),
            (launch, "_run", catch),
        ):
            patches.enter_context(patch.object(module, name, instead))
        yield found
    if not found:
        reason = "fused is False, its tensors have no elements, freqs requires a gradient, or it "
        raise ValueError(f"the call launches no kernel: {reason}does not rotate")
