"""Let Triton's interpreter decide as the compiler does: flags, TF32, constants, what it can't run.

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import cache, wraps

import numpy as np
from triton._C.libtriton import ir
from triton.runtime.interpreter import (
    FunctionRewriter,
    GridExecutor,
    InterpreterBuilder,
    TensorHandle,
)
from triton.runtime.jit import _normalize_ty


@cache
def let_flags_wrap() -> None:
    """Let True + True be False, from now on: a flag has one bit. NumPy's sum of flags is "or"."""

    def unless_flags(number_operation: np.ufunc) -> Callable:
        def create(self, x, y):
            is_flag = x.data.dtype == np.bool_
            return self.binary_op(x, y, np.bitwise_xor if is_flag else number_operation)

        return create

    InterpreterBuilder.create_add = unless_flags(np.add)
    InterpreterBuilder.create_sub = unless_flags(np.subtract)


def takes_tf32(block: TensorHandle, input_precision: object) -> bool:
    """Whether `tl.dot` of such a block ignores 13 of the 23 bits of a mantissa: by default."""
    return block.data.dtype == np.float32 and input_precision == ir.INPUT_PRECISION.TF32


@cache
def let_dots_take_tf32() -> None:
    """Let `tl.dot` of fp32 drop the bits that tensor cores ignore, from now on.

    (A product with the identity matrix showed it on an H200, with Triton 3.6: nothing is rounded.)
    """
    original = InterpreterBuilder.create_dot

    def shortened(block: TensorHandle) -> TensorHandle:
        kept = block.data.view(np.int32) & ~0x1FFF
        return TensorHandle(kept.view(np.float32), block.dtype)

    @wraps(original)
    def create_dot(self, x, y, total, input_precision, *rest):
        if takes_tf32(x, input_precision):
            x, y = shortened(x), shortened(y)
        return original(self, x, y, total, input_precision, *rest)

    InterpreterBuilder.create_dot = create_dot


@cache
def let_every_constexpr_be_one() -> None:
    """Let an annotation say constexpr as the JIT understands it, from now on: in any spelling.

    The interpreter compiles a kernel again, whose annotations are then the text of the source.
    """
    started, rewritten = GridExecutor.__init__, FunctionRewriter.rewrite_ast

    def rewrite(self):
        function = rewritten(self)
        function.__annotations__ = self.fn.__annotations__
        return function

    def start(self, fn, arg_names, *rest, **named):
        started(self, fn, arg_names, *rest, **named)
        kinds = {name: _normalize_ty(kind) for name, kind in fn.__annotations__.items()}
        self.constexprs = [name for name in arg_names if "constexpr" in kinds.get(name, "")]

    FunctionRewriter.rewrite_ast, GridExecutor.__init__ = rewrite, start
