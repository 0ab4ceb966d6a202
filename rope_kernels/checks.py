"""What one argument may be by itself, and the errors for everything else.

Every message names the argument, what came and what is accepted.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor

from .modes import is_dtensor

EXACT = (torch.float32, torch.float64)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)

Named = Iterable[tuple[str, Tensor | None]]  # tensors by the names of their arguments
Value = TypeVar("Value")

# PyTorch's own error for a DTensor beside other tensors says to make DTensors of all. Then a call
# would work, in plain PyTorch and slowly, and say nothing.
_BY_LOCAL_MAP = """\
torch.Tensor. Rotate each rank's local tensors, with cp_size and cp_rank if sequences are sharded:
    from torch.distributed.tensor.experimental import local_map
    q, k = local_map(rope_qk, (q.placements, k.placements))(q, k, freqs, tensor_format)"""


# The words of errors


def bad(came: str, accepted: str, error: type[Exception] = ValueError) -> Exception:
    """The error to raise: what came, and what is accepted."""
    return error(f"{came}; accepted: {accepted}")


def shown(value: object) -> str:
    """`value` in an error: a tensor by its shape, for its elements may fill a page."""
    if isinstance(value, Tensor):
        return "a nested tensor" if value.is_nested else f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple) and any([isinstance(x, Tensor) for x in value]):
        return f"({', '.join(map(shown, value))})"
    try:
        return repr(value)
    except Exception:  # of any kind, such as Python's own for an int of 5000 digits
        return f"of type {type(value).__name__}"


def short(dtype: torch.dtype) -> str:
    """A dtype without the module that it is in."""
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
    """Return `tensor_format`, the argument that a first call is most often wrong in.

    Calls of other libraries pass cos and sin as two arguments, and positions after them. The second
    one arrives here.
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

MOST_START = 2**62  # larger ones could overflow 64 bits
STARTS = "an int from -2^62 to 2^62, or a torch.Tensor"


def is_integer(value: object) -> TypeGuard[int]:
    """Whether this is an integer, of NumPy or a trace too, which compute as Python's do.

    A bool is none here, though to Python True is 1.
    """
    return isinstance(value, (int, torch.SymInt, Integral)) and not isinstance(value, bool)


def as_integer(value: Value) -> Value | int:
    """An integer of NumPy as Python's; all else, one of a trace too, as it is."""
    if type(value) is int or isinstance(value, torch.SymInt) or not is_integer(value):
        return value
    return int(value)


def check_integer(
    name: str, value: object, *, least: float, most: float, accepted: str, **sizes: object
) -> int:
    """Return an integer from `least` to `most`, as it came.

    `accepted` may name {least}, {most} and `sizes`. They are written into it only for an error: a
    size in a string is a constant to torch.compile, which would compile again for every other one.
    """
    if not (is_integer(value) and least <= value <= most):
        error = TypeError if isinstance(value, bool) else ValueError
        came = f"{name} is {shown(value)}"
        raise bad(came, accepted.format(least=least, most=most, **sizes), error)
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a finite number that a tensor can hold, of NumPy too, and no bool."""
    if isinstance(value, Integral):
        return not isinstance(value, bool) and abs(int(value)) < 2**63
    with suppress(OverflowError):  # A fraction may be beyond all floats.
        return isinstance(value, Real) and math.isfinite(value)
    return False


def check_positive(name: str, value: object) -> int | float:
    """Return a positive number as one of Python's own."""
    if is_number(value):
        number = int(value) if isinstance(value, Integral) else float(value)
        if number > 0:
            return number
    raise bad(f"{name} is {shown(value)}", "a positive number below infinity")


# Tensors


def check_layout(name: str, x: Tensor) -> None:
    # torch.compile can't trace `layout` in a backward. It refuses sparse tensors by itself.
    if x.is_nested or (not torch.compiler.is_compiling() and x.layout != torch.strided):
        layout = "of a nested tensor" if x.is_nested else x.layout
        raise bad(f"{name} has layout {layout}", "torch.strided")


def check_tensor(
    name: str, x: object, dtypes: Sequence[torch.dtype] = (), when: str = ""
) -> Tensor:
    """Return `x`, a strided tensor of one of the dtypes (of any, if none is named)."""
    if not isinstance(x, Tensor):
        raise bad(f"{name} is of type {type(x).__name__}", "torch.Tensor", TypeError)
    if is_dtensor(x):
        raise bad(f"{name} is a DTensor", _BY_LOCAL_MAP, TypeError)
    check_layout(name, x)
    if dtypes and x.dtype not in dtypes:
        came, names = f"{name} has dtype {short(x.dtype)}", ", ".join(map(short, dtypes))
        raise TypeError(f"{came}; accepted{when}: {names}")
    return x
