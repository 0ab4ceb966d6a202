"""Every launch that Triton's interpreter makes, before and after it runs."""

import contextlib
from collections.abc import Callable, Iterator
from unittest.mock import patch

from rope_kernels.modes import interpreter_is_on, triton_is_installed


def interprets() -> bool:
    """Whether launches are interpreted in this process."""
    return interpreter_is_on() and triton_is_installed()


def constants_of(kernel: Callable, named: dict[str, object]) -> tuple:
    """What one compiled kernel has in common: its name, its constants and the number of warps.

    Args:
        kernel: the Python function.
        named: arguments of a launch by their names, and its options.
    """
    is_constant = {name: "constexpr" in str(kind) for name, kind in kernel.__annotations__.items()}
    is_constant["num_warps"] = True
    constants = [(name, repr(value)) for name, value in named.items() if is_constant.get(name)]
    return kernel.__name__, *constants


@contextlib.contextmanager
def each_launch(around: Callable) -> Iterator[None]:
    """Meanwhile `around(run, kernel, *arguments, **options)` makes every interpreted launch."""
    if not interprets():
        yield
        return
    from triton.runtime.interpreter import InterpretedFunction

    run = InterpretedFunction.run

    def launch(kernel, /, *arguments, **options):
        return around(run, kernel, *arguments, **options)

    with patch.object(InterpretedFunction, "run", launch):
        yield
