"""bf16 in Triton's interpreter as on a GPU: rounded to nearest even, with real arithmetic.

The interpreter stores a bf16 as its bits, in a 16-bit integer. As of Triton 3.7.1, a cast to bf16
truncates, so half of the elements that a kernel stores differ from a GPU's in the last bit. It also
adds, multiplies and compares the bits: 1 + 1 is 1.7e38. Here, an operation on bf16 computes in fp32
and rounds once. fp32 has more than twice the bits of bf16, so a sum, difference, product or
quotient equals that of a GPU, which computes it in one step.

The interpreter's casts to and from fp8 are also wrong: 1.99 becomes 1.0. They are refused, and so
are atomic operations on bf16, which would add its bits.

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from .functions import CannotBeInterpreted

_FP8 = "a cast to or from fp8", "run this kernel on a GPU"
_ATOMIC = "an atomic operation on bf16", "use a tensor of fp32 for it"


@cache
def let_bf16_round() -> None:
    """Make this process interpret bf16 as on a GPU; harmless if called again."""
    builder = interpreter.InterpreterBuilder
    builder.cast_impl = _cast(builder.cast_impl)
    builder.create_fp_to_fp = _cast(builder.create_fp_to_fp)
    for name in ("binary_op", "unary_op", "create_fma", "create_clampf", "create_dot"):
        setattr(builder, name, _on_numbers(getattr(builder, name)))
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _reduced_in_fp32(kind.apply_impl)
    if not hasattr(builder, "get_bf16"):  # without it, constants can't be bf16
        builder.get_bf16 = _constant
    builder.create_atomic_rmw = _refused_for_bf16(builder.create_atomic_rmw)


def as_fp32(bits: np.ndarray) -> np.ndarray:
    """The numbers of bf16 bits (uint16), which are the upper half of an fp32's bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded_to_bf16(values: np.ndarray) -> np.ndarray:
    """The bits of fp32 numbers rounded to nearest, ties to even; uint16. NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = bits >> 16 & 1  # a tie goes up if the last bit that stays is 1
    rounded = (bits.astype(np.uint64) + 0x7FFF + odd >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded).reshape(np.shape(values))


def rounded_to_odd(values: np.ndarray) -> np.ndarray:
    """fp64 numbers as fp32, so that rounding them to bf16 equals a single rounding.

    A number between two fp32 becomes the one with an odd last bit, which isn't a tie in bf16.
    """
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    toward = np.where(values > near, np.float32(np.inf), np.float32(-np.inf))
    is_even = near.view(np.uint32) & 1 == 0
    between = (near != values) & ~np.isnan(values)
    with np.errstate(over="ignore"):
        return np.where(between & is_even, np.nextafter(near, toward), near)


def _cast(original: Callable) -> Callable:
    def cast(self, source, to, rounding=None):
        from_type, to_type = source.dtype.scalar, to.scalar
        if "fp8" in (from_type.name[:3], to_type.name[:3]):
            raise CannotBeInterpreted(*_FP8)
        if to_type == tl.bfloat16 and rounding in (None, ir.ROUNDING_MODE.RTNE):
            values = source.data if from_type != tl.bfloat16 else as_fp32(source.data)
            values = rounded_to_odd(values) if from_type == tl.float64 else values
            return TensorHandle(rounded_to_bf16(values.astype(np.float32)), tl.bfloat16)
        if from_type == tl.bfloat16 and to_type != tl.bfloat16:
            source = TensorHandle(as_fp32(source.data), tl.float32)
            if to_type == tl.float32:
                return source
        return original(self, source, to, *(() if rounding is None else (rounding,)))

    return cast


def _constant(self, value: float):
    return TensorHandle(rounded_to_bf16(np.array([value], np.float32)), tl.bfloat16)


def _on_numbers(original: Callable) -> Callable:
    """The operation on the numbers of bf16 operands, its result rounded if it is a number."""

    def number(operand):
        if isinstance(operand, TensorHandle) and operand.dtype.name == "bf16":
            return TensorHandle(as_fp32(operand.data), tl.float32)
        return operand

    def operation(self, first, *others):
        if first.dtype.name != "bf16":  # quicker than to compare types
            return original(self, first, *others)
        result = original(self, number(first), *map(number, others))
        is_number = result.data.dtype == np.float32 and result.dtype.scalar == tl.float32
        asked_in_fp32 = original.__name__ == "create_dot" and others[1].dtype.scalar == tl.float32
        if not is_number or asked_in_fp32:
            return result
        return TensorHandle(rounded_to_bf16(result.data), tl.bfloat16)

    operation.__name__ = original.__name__
    return operation


def _reduced_in_fp32(original: Callable) -> Callable:
    """A sum of bf16, or a scan: in fp32, and rounded at the end. A GPU rounds each partial sum."""

    def retyped(x, data, dtype):  # a scalar stays one; the interpreter stores it as an array, too
        kind = x.type.with_element_ty(dtype) if x.type.is_block() else dtype
        return tl.tensor(TensorHandle(data, dtype), kind)

    def of_fp32(x):
        is_bf16 = x.dtype == tl.bfloat16
        return retyped(x, as_fp32(x.handle.data), tl.float32) if is_bf16 else x

    def of_bf16(x):
        is_fp32 = x.dtype == tl.float32
        return retyped(x, rounded_to_bf16(x.handle.data), tl.bfloat16) if is_fp32 else x

    def apply(self, inputs):
        found = original(self, tuple(map(of_fp32, inputs)))
        if all(x.dtype != tl.bfloat16 for x in inputs):
            return found
        several = isinstance(found, (list, tuple))
        return [*map(of_bf16, found)] if several else of_bf16(found)

    return apply


def _refused_for_bf16(original: Callable) -> Callable:
    def atomic(self, kind, pointer, value, *rest):
        if value.dtype.scalar == tl.bfloat16:
            raise CannotBeInterpreted(*_ATOMIC)
        return original(self, kind, pointer, value, *rest)

    return atomic
