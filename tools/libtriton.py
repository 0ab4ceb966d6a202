"""The parts of `triton._C.libtriton` that Triton's interpreter needs, in Python and NumPy.

Triton publishes packages only for Linux. Its interpreter is written in Python, and needs little of
the compiled library `libtriton`: loads, stores and atomics at addresses, names of options,
environment variables and types of arguments. This file implements these as in Triton 3.7.
`interpreter_wheel.py` puts it in place of the library. Everything else raises `NoCompiler`.

As in the compiled library, masked addresses are never accessed. Accessing any other address that
isn't mapped ends the process.
"""

import os
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import ModuleType, SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[np.generic]
__path__: list[str] = []  # Triton imports names of submodules, so this must be a package.


class NoCompiler(NotImplementedError):
    """Raised if Triton's compiler is needed, because only its interpreter is installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is part of Triton's compiler; only its interpreter is installed")


# Memory
#
# All memory is one NumPy array, and addresses are indices. Only indexed elements are accessed, in C
# order, whatever the memory order of the array of addresses: if an address occurs twice, the last
# value must remain.

_FIRST = 64  # NumPy treats an array at address 0 as one without memory.
_END = min(2**56, sys.maxsize)  # beyond any address of a process


@cache
def _memory(dtype: np.dtype, step: int) -> Array:
    """All memory as elements of this dtype, one every `step` bytes."""
    interface = {
        "version": 3,
        "data": (_FIRST, False),  # False: not read-only
        "shape": ((_END - _FIRST) // step - 1,),
        "strides": (step,),
        "typestr": dtype.str,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def _located(addresses: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """All memory as elements of this dtype, and the index of each address."""
    size = dtype.itemsize
    index = (addresses - np.uint64(_FIRST)).view(np.int64)
    if np.bitwise_or.reduce(index) % size:  # An address isn't a multiple of the element's size.
        return _memory(dtype, 1), index
    return _memory(dtype, size), index // size


def load(addresses: Array, mask: ArrayLike, other: ArrayLike, dtype: DTypeLike) -> Array:
    """The elements at these addresses; the bits of `other` where the mask is False."""
    dtype, shape = np.dtype(dtype), addresses.shape
    addresses, mask = addresses.ravel(), np.asarray(mask).ravel()  # A mask may be a memoryview.
    if mask.all():
        memory, index = _located(addresses, dtype)
        return memory[index].reshape(shape)
    found = np.array(other, order="C").ravel().view(dtype)
    memory, index = _located(addresses[mask], dtype)
    found[mask] = memory[index]
    return found.reshape(shape)


def store(addresses: Array, values: Array, mask: ArrayLike) -> None:
    """Store each value at its address, in order, where the mask is True."""
    addresses, values, mask = addresses.ravel(), values.ravel(), np.asarray(mask).ravel()
    if not mask.all():
        addresses, values = addresses[mask], values[mask]
    memory, index = _located(addresses, values.dtype)
    memory[index] = values


# Atomics
#
# A single thread interprets all programs, so nothing happens between a read and its write.


# How `atomic_rmw` combines a value with memory: read, modify, write. The names are Triton's.
RMW_OP = Enum("RMW_OP", "ADD FADD AND OR XOR XCHG MAX MIN UMIN UMAX")


def _second(old: Array, new: Array) -> Array:
    return new


_SIGNED, _UNSIGNED = ("int32", "int64"), ("uint32", "uint64")
# How each combines old and new values, and for which dtypes.
_COMBINES: dict[RMW_OP, tuple[Callable[[Array, Array], Array], tuple[str, ...]]] = {
    RMW_OP.ADD: (np.add, _SIGNED + _UNSIGNED),
    RMW_OP.FADD: (np.add, ("float16", "float32", "float64")),
    RMW_OP.AND: (np.bitwise_and, _SIGNED + _UNSIGNED),
    RMW_OP.OR: (np.bitwise_or, _SIGNED + _UNSIGNED),
    RMW_OP.XOR: (np.bitwise_xor, _SIGNED + _UNSIGNED),
    RMW_OP.XCHG: (_second, _SIGNED + _UNSIGNED),
    RMW_OP.MAX: (np.maximum, _SIGNED),
    RMW_OP.MIN: (np.minimum, _SIGNED),
    RMW_OP.UMIN: (np.minimum, _UNSIGNED),
    RMW_OP.UMAX: (np.maximum, _UNSIGNED),
}


def atomic_rmw(
    kind: RMW_OP, addresses: Array, values: Array, mask: ArrayLike, order: object
) -> Array:
    """Combine each value with memory, where the mask is True, and return what was there before.

    `order` has no effect with a single thread. Where the mask is False, the result is 0; in the
    compiled library it is undefined.

    Raises:
        ValueError: this operation doesn't support the dtype.
    """
    combine, dtypes = _COMBINES[kind]
    if values.dtype.name not in dtypes:
        raise ValueError("Unsupported data type")  # the compiled library's message
    before = np.zeros(values.size, values.dtype)
    active = np.asarray(mask).ravel()
    before[active] = _replace(addresses.ravel()[active], values.ravel()[active], combine)
    return before.reshape(addresses.shape)


def atomic_cas(addresses: Array, expected: Array, values: Array, order: object) -> Array:
    """Where memory has the expected bits, store the value; return what was there before."""
    bits = np.dtype(f"u{values.itemsize}")
    wanted, new = expected.ravel().view(bits), values.ravel().view(bits)

    def swap(old: Array, wanted_and_new: Array) -> Array:
        wanted, new = wanted_and_new[..., 0], wanted_and_new[..., 1]
        return np.where(old == wanted, new, old)

    before = _replace(addresses.ravel(), np.stack([wanted, new], axis=-1), swap)
    return before.view(values.dtype).reshape(addresses.shape)


@np.errstate(all="ignore")  # A sum may be infinite.
def _replace(addresses: Array, values: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """Replace each element of memory by `combine(element, value)`; return what was there before.

    An element that occurs twice is replaced twice.
    """
    memory, index = _located(addresses, values.dtype)
    overlap = memory.strides[0] < values.itemsize or np.unique(index).size < index.size
    if not overlap:  # The order doesn't matter.
        before = memory[index]
        memory[index] = combine(before, values)
        return before
    before = np.empty(index.shape, values.dtype)
    for place, at in enumerate(index):
        before[place] = memory[at]
        memory[at] = combine(before[place], values[place])
    return before


# Names
#
# `ir` has the options of Triton's operations. The interpreter compares or passes them. Their
# numbers differ from the compiled library's, but only the compiler reads these.

_OPTIONS = {
    "ATOMIC_OP": "AND OR XOR ADD FADD MAX MIN UMAX UMIN XCHG",
    "CACHE_MODIFIER": "NONE CA CG WB CS WT CV",
    "DESCRIPTOR_REDUCE_KIND": "ADD MIN MAX INC DEC AND OR XOR",
    "EVICTION_POLICY": "NORMAL EVICT_FIRST EVICT_LAST",
    "INPUT_PRECISION": "TF32 TF32x3 IEEE BF16x3 BF16x6",
    "MEM_SEMANTIC": "RELAXED ACQUIRE RELEASE ACQUIRE_RELEASE",
    "MEM_SYNC_SCOPE": "GPU CTA SYSTEM",
    "PADDING_OPTION": "PAD_ZERO PAD_NAN",
    "PROPAGATE_NAN": "NONE ALL",
    "ROUNDING_MODE": "RTZ RTNE",
    "ScaleDotElemTypeTY": "E4M3 E5M2 E2M3 E3M2 E2M1 BF16 FP16",
}
# Triton's annotations use these types of the compiler.
_TYPES = (
    "InsertPoint",
    "block_argument",
    "builder",
    "context",
    "module",
    "type",
    "value",
)


def _part(name: str, members: dict[str, object]) -> ModuleType:
    """A submodule of libtriton, which raises `NoCompiler` for missing members."""

    def lacking(member: str) -> object:
        if member.startswith("__"):  # Python looks these up.
            raise AttributeError(member)
        raise NoCompiler(f"libtriton.{name}.{member}")

    part = ModuleType(f"{__name__}.{name}")
    vars(part).update(members)
    vars(part)["__getattr__"] = lacking
    sys.modules[part.__name__] = part
    return part


def _empty_class(name: str) -> type:
    return type(name, (), {})


ir = _part(
    "ir",
    {name: Enum(name, members) for name, members in _OPTIONS.items()}
    | {name: _empty_class(name) for name in _TYPES},
)
interpreter = _part(
    "interpreter",
    {
        "MEM_SEMANTIC": Enum("MEM_SEMANTIC", _OPTIONS["MEM_SEMANTIC"]),
        "RMW_OP": RMW_OP,
        "load": load,
        "store": store,
        "atomic_rmw": atomic_rmw,
        "atomic_cas": atomic_cas,
    },
)
linear_layout = _part("linear_layout", {"LinearLayout": _empty_class("LinearLayout")})
gluon_ir = _part("gluon_ir", {"GluonOpBuilder": _empty_class("GluonOpBuilder")})
llvm, passes, nvidia, amd = (_part(name, {}) for name in ("llvm", "passes", "nvidia", "amd"))


# Environment variables


def getenv(name: str, default: str | None = None) -> str | None:
    """The variable's value, or the default if it isn't set."""
    return os.environ.get(name, default)


def getenv_bool(name: str, default: bool | None) -> bool | None:
    """Whether the variable is true; the default if it isn't set."""
    value = os.environ.get(name)
    return default if value is None else value.lower() in ("1", "on", "true", "y", "yes")


def get_cache_invalidating_env_vars() -> dict[str, str]:
    """Variables that invalidate compiled kernels: none, because nothing is compiled."""
    return {}


# Types of arguments


def native_specialize_impl(
    backend: type, argument: object, is_const: bool, specialize_value: bool, align: bool
) -> tuple[str, None]:
    """Triton's name for the type of an integer or a tensor, without specialization.

    Raises:
        OverflowError: an integer doesn't fit into 64 bits.
        TypeError: anything else, which the interpreter doesn't pass.
    """
    from triton._utils import canonicalize_dtype  # It imports a module that imports this one.

    if isinstance(argument, bool):
        return "u1", None
    if isinstance(argument, int):
        if -(2**31) <= argument < 2**31:
            return "i32", None
        if -(2**63) <= argument < 2**63:
            return "i64", None
        if 0 <= argument < 2**64:
            return "u64", None
        raise OverflowError("integer to be specialized too large to represent")
    if hasattr(argument, "data_ptr"):
        const = "k" if is_const else ""
        return f"*{const}{canonicalize_dtype(argument.dtype)}", None
    raise TypeError(f"failed to specialize argument of type: {type(argument).__name__}")
