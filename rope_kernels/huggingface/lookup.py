"""From an object of a model to the function that rotates in its place: the one decision."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import nn

from .digest import UnknownCode, code_digest
from .known import BY_DIGEST

UNKNOWN = "its code is not that of a known function"


def function_of(value: Any) -> Any:
    """The Python function that an object stands for; the object itself if it is none.

    Where the package kernels is installed, transformers makes a module of each function that
    rotates. The `forward` of the module's class holds the function.
    """
    if not isinstance(value, nn.Module):
        return value
    cells = getattr(type(value).forward, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells]
    functions = [x for x in held if isinstance(x, FunctionType)]
    return functions[0] if len(functions) == 1 else value


def is_known(function: Any) -> bool:
    """Whether `ours_for` has a function for this one."""
    try:
        return code_digest(function) in BY_DIGEST
    except UnknownCode:
        return False


def ours_for(function: Callable, original: Callable) -> Callable:
    """The function of ours with the arguments, the bits and the name of `function`.

    Args:
        function: as `function_of` returns it. Its own code decides.
        original: takes the calls that the kernel can't take.

    Raises:
        UnknownCode: the code is not known.
    """
    known = BY_DIGEST.get(code_digest(function))
    if known is None:
        raise UnknownCode(UNKNOWN)
    return functools.wraps(function)(known.form(known.rule, original))
