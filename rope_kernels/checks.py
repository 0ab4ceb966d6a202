"""Checks of single arguments, and the wording of errors.

Every message names the argument, what was passed and what is accepted.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor

from .paths import is_dtensor

EXACT = (torch.float32, torch.float64)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)

Named = Iterable[tuple[str, Tensor | None]]  # tensors by the names of their arguments
Value = TypeVar("Value")

# If DTensors and other tensors are mixed, PyTorch's own error suggests making all of them DTensors.
# The call would then work, but silently in slow plain PyTorch.
_BY_LOCAL_MAP = """\
torch.Tensor. Rotate each rank's local tensors, with cp_size and cp_rank if sequences are sharded:
    from torch.distributed.tensor.experimental import local_map
    q, k = local_map(rope_qk, (q.placements, k.placements))(q, k, freqs, tensor_format)"""


# The wording of errors


def bad(came: str, accepted: str, error: type[Exception] = ValueError) -> Exception:
    """The error to raise. It says what was passed, and what is accepted."""
    return error(f"{came}; accepted: {accepted}")


def shown(value: object) -> str:
    """`value` as an error shows it: a tensor by its shape, because elements could fill a page."""
    if isinstance(value, Tensor):
        return "a nested tensor" if value.is_nested else f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple) and any([isinstance(x, Tensor) for x in value]):
        return f"({', '.join(map(shown, value))})"
    try:
        return repr(value)
    except Exception:  # Any repr may raise: Python's does for an int of 5000 digits.
        return f"of type {type(value).__name__}"


def short(dtype: torch.dtype) -> str:
    """The name of a dtype without "torch."."""
    return str(dtype).removeprefix("torch.")


def names_of(tensors: Sequence[Tensor], transpose: bool) -> tuple[str, ...]:
    """What the public functions call the tensors that they rotate."""
    return ("q", "k") if len(tensors) == 2 else ("grad",) if transpose else ("t",)


# Flags and choices


def check_flag(name: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise bad(f"{name} is {shown(flag)}", "False, True", TypeError)


def check_choice(name: str, value: object, accepted: tuple[str | None, ...]) -> None:
    if not ((value is None or isinstance(value, str)) and value in accepted):
        raise bad(f"{name} is {shown(value)}", ", ".join(map(str, accepted)))


def check_format(tensor_format: object, accepted: tuple[str, ...]) -> str:
    """Return `tensor_format` if it is one of the `accepted`.

    Calls written for other libraries pass sin or positions in its place, because cos and sin are
    two arguments there. The error then says what to write.
    """
    if isinstance(tensor_format, Tensor):
        came = f"tensor_format is {shown(tensor_format)}"
        instead = "pass cos and sin as one argument, freqs=(cos, sin)"
        if tensor_format.dtype in INTEGERS:
            instead = "pass positions by name, position_ids=..."
        raise bad(came, f"{', '.join(accepted)}; {instead}", TypeError)
    if tensor_format is None:
        orders = ", ".join(accepted)
        raise bad("tensor_format is missing", f"the order of the dimensions, {orders}", TypeError)
    if not (isinstance(tensor_format, str) and tensor_format in accepted):
        raise bad(f"tensor_format is {shown(tensor_format)}", ", ".join(accepted))
    return tensor_format


# Numbers

MOST_START = 2**62  # Larger positions could overflow 64 bits.
STARTS = "an int from -2^62 to 2^62, or a torch.Tensor"


def is_integer(value: object) -> TypeGuard[int]:
    """Whether this is an integer of Python, NumPy or a trace. A bool doesn't count as one."""
    return isinstance(value, (int, torch.SymInt, Integral)) and not isinstance(value, bool)


def as_integer(value: Value) -> Value | int:
    """Convert an integer of NumPy to Python's. Other values, and a trace's, are returned as is."""
    if type(value) is int or isinstance(value, torch.SymInt) or not is_integer(value):
        return value
    return int(value)


def check_integer(
    name: str, value: object, *, least: float, most: float, accepted: str, **sizes: object
) -> int:
    """Return `value` if it is an integer from `least` to `most`.

    `accepted` may contain {least}, {most} and names of `sizes`. It is formatted only for an error,
    because a size in a string is a constant for torch.compile, which would recompile for each size.
    """
    if not (is_integer(value) and least <= value <= most):
        error = TypeError if isinstance(value, bool) else ValueError
        came = f"{name} is {shown(value)}"
        raise bad(came, accepted.format(least=least, most=most, **sizes), error)
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a finite number of Python or NumPy that a tensor can hold, and not a bool."""
    if isinstance(value, Integral):
        return not isinstance(value, bool) and abs(int(value)) < 2**63
    with suppress(OverflowError):  # A Fraction may be too large for a float.
        return isinstance(value, Real) and math.isfinite(value)
    return False


def check_positive(name: str, value: object) -> int | float:
    """Return a positive number as a Python int or float."""
    if is_number(value):
        number = int(value) if isinstance(value, Integral) else float(value)
        if number > 0:
            return number
    raise bad(f"{name} is {shown(value)}", "a positive number below infinity")


# Tensors


def check_layout(name: str, x: Tensor) -> None:
    # torch.compile can't trace `layout` in a backward. It rejects sparse tensors itself.
    if x.is_nested or (not torch.compiler.is_compiling() and x.layout != torch.strided):
        layout = "of a nested tensor" if x.is_nested else x.layout
        raise bad(f"{name} has layout {layout}", "torch.strided")


def check_tensor(
    name: str, x: object, dtypes: Sequence[torch.dtype] = (), when: str = ""
) -> Tensor:
    """Return `x` if it is a strided tensor of one of the dtypes; (): any dtype."""
    if not isinstance(x, Tensor):
        raise bad(f"{name} is of type {type(x).__name__}", "torch.Tensor", TypeError)
    if is_dtensor(x):
        raise bad(f"{name} is a DTensor", _BY_LOCAL_MAP, TypeError)
    check_layout(name, x)
    if dtypes and x.dtype not in dtypes:
        came, names = f"{name} has dtype {short(x.dtype)}", ", ".join(map(short, dtypes))
        raise TypeError(f"{came}; accepted{when}: {names}")
    return x
