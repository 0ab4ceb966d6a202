"""From an object of a model to its function, and from the function's code to how it rotates."""

from types import FunctionType
from typing import Any

from torch import nn

from .digest import UnknownCode, code_digest
from .known import BY_DIGEST, Known

UNKNOWN = "its code is not that of a known function"


def function_of(value: Any) -> Any:
    """The Python function that an object of a model stands for; the object itself if it has none.

    Where the package kernels is installed, transformers makes a module of each function that
    rotates.
    """
    held = function_held_by(type(value)) if isinstance(value, nn.Module) else None
    return value if held is None else held


def function_held_by(kind: type[nn.Module]) -> FunctionType | None:
    """The one function over which the `forward` of such a module's class closes; None: no one."""
    cells = getattr(kind.forward, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells]
    functions = [x for x in held if isinstance(x, FunctionType)]
    return functions[0] if len(functions) == 1 else None


def is_known(function: Any) -> bool:
    """Whether `known_by_code` finds this function."""
    try:
        return code_digest(function) in BY_DIGEST
    except UnknownCode:
        return False


def known_by_code(function: Any) -> Known:
    """The row of the table with this function's own code.

    Raises:
        UnknownCode: there is none. The message says why.
    """
    known = BY_DIGEST.get(code_digest(function))
    if known is None:
        raise UnknownCode(UNKNOWN)
    return known
