"""Launches that Triton's interpreter makes in this process."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rope_kernels.modes import interpreter_is_on, triton_is_installed

from ..compiler.launches import Launch, launched_by


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


def each_launch(launcher: Callable[[Launch], object]) -> AbstractContextManager:
    """As `launched_by`, where launches are interpreted; elsewhere they are left alone."""
    return launched_by(launcher) if interprets() else nullcontext()
