"""Triton's interpreter without the work that has no effect. Measured with Triton 3.7.1, 2026-11-23.

- Before a kernel runs, it replaces the functions of `triton.language` by its own. It does so again
  at each call of a `@triton.jit` function, when nothing is left to replace, and finding that out
  takes longer than a short function.
- It computes every sum, difference and product of integers twice, with 64 bits for a check of
  overflow. The check asserts only if the option `debug` is on, which it never is here. Compiled
  kernels drop it as dead code: https://github.com/facebookexperimental/triton/pull/769
- Each operation builds its result's type once more, with a tuple of its sizes, twice. Kernels have
  few types: the second time it is a copy. And sizes that are equal aren't compared one by one.
- NumPy's dtype for Triton's is found in a dict that is built each time.

The first two are half to two thirds of the time of a test that runs kernels, the others 40 % of
the rest.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from types import FunctionType

import numpy as np

from rope_kernels.modes import triton_is_installed

from .interpreted_bf16 import let_bf16_round
from .interpreted_functions import let_libdevice_run


def speed_up() -> None:
    """Let this process interpret kernels faster, with the same results; harmless if called again.

    Loads Triton, if there is one. A Triton that is built differently is left as it is: 3.5 does
    without the first change. Launch from one thread at a time, as the interpreter demands anyway.
    """
    if not triton_is_installed():
        return
    from triton.runtime import interpreter

    _replace_functions_once_a_launch(interpreter)
    _skip_overflow_checks(interpreter)
    _build_types_once()
    _look_numpys_dtypes_up_once(interpreter)


def run_as_compiled() -> None:
    """Let this process interpret kernels as a GPU runs them, and faster: all that is below.

    Loads Triton, if there is one.
    """
    if not triton_is_installed():
        return
    speed_up()
    let_masks_be_numbers()
    let_floats_be_numbers()
    let_libdevice_run()
    let_tuners_run()
    let_fma_round_once()
    let_bf16_round()


def let_masks_be_numbers() -> None:
    """Let `mask=i < n` of two numbers run in an interpreted kernel, from now on, with any Triton.

    The interpreter gives the comparison the dtype of `i`, and makes integers of it when it spreads
    it over a block. Until Triton 3.8 a load takes them for a mask; that of 3.9 raises `ValueError:
    mask has unsupported dtype`. Compiled, such a mask runs.
    """
    from triton.runtime import interpreter

    spread = interpreter.InterpreterBuilder.create_splat
    if hasattr(spread, "keeps_bools"):
        return

    def create_splat(self, block_type, number):
        block = spread(self, block_type, number)
        if number.data.dtype == bool:
            block.data = block.data.astype(bool)
        return block

    create_splat.keeps_bools = True
    interpreter.InterpreterBuilder.create_splat = create_splat


def let_floats_be_numbers() -> None:
    """Let `eps.to(tl.float32)` run in an interpreted kernel, from now on.

    Compiled, a float argument is a number in fp32, as an integer is one in int32. The interpreter
    makes a number of the integer alone.
    """
    from triton import language as tl
    from triton.runtime import interpreter

    original = interpreter._implicit_cvt

    def convert(argument):
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(np.array([argument], np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        return original(argument)

    interpreter._implicit_cvt = convert


def let_fma_round_once() -> None:
    """Let `tl.fma` of fp32 round once, from now on, as on a GPU: the interpreter rounds twice.

    An exact product is what a reduction of large angles lives on.
    """
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    original = InterpreterBuilder.create_fma
    if hasattr(original, "rounds_once"):
        return

    def create_fma(self, x, y, z):
        if x.data.dtype != np.float32:
            return original(self, x, y, z)
        exact = x.data.astype(np.float64) * y.data + z.data
        return TensorHandle(exact.astype(np.float32), z.dtype.scalar)

    create_fma.rounds_once = True
    InterpreterBuilder.create_fma = create_fma


def let_tuners_run() -> None:
    """Let an autotuned kernel take the first of its configurations, from now on, and time none.

    Triton's clock wants a GPU. A clock of the kernel's own (`do_bench=`) is asked as ever.
    """
    from triton.runtime.autotuner import Autotuner

    def do_bench(self) -> Callable:
        own = self._do_bench
        module = getattr(getattr(own, "func", own), "__module__", "")
        is_tritons = own is None or module.startswith("triton.")
        return all_alike if is_tritons else own

    def all_alike(run: Callable, quantiles: tuple[float, ...]) -> list[float]:
        """What `run` would take: of equal times the tuner takes the first."""
        return [0.0] * len(quantiles)

    all_alike.times = False
    Autotuner.do_bench = property(do_bench)


def _replace_functions_once_a_launch(interpreter) -> None:
    from triton import language as tl

    original = getattr(interpreter, "_patch_lang", None)
    no_changes = getattr(interpreter, "_LangPatchScope", None)
    if original is None or no_changes is None or hasattr(original, "looks_first"):
        return

    def patch(fn: FunctionType) -> object:
        known = [value for value in fn.__globals__.values() if value is tl or value is tl.core]
        if known and not any(tl.core.is_builtin(module.load) for module in known):
            return no_changes()  # those of Triton are replaced
        return original(fn)

    patch.looks_first = True
    interpreter._patch_lang = patch


def _skip_overflow_checks(interpreter) -> None:
    builder = getattr(interpreter, "interpreter_builder", None)
    options = getattr(builder, "options", None)
    if not is_dataclass(options):
        return
    names = {field.name for field in fields(options)}
    if {"debug", "sanitize_overflow"} <= names and not options.debug:
        builder.options = replace(options, sanitize_overflow=False)


def _build_types_once() -> None:
    from triton import language as tl
    from triton.language.semantic import TritonSemantic

    original, original_tensor = tl.block_type.__init__, tl.tensor.__init__
    original_broadcast = getattr(TritonSemantic, "broadcast_impl_value", None)
    plain = tl.tensor(None, tl.block_type(tl.float32, [2]))
    as_we_know_them = set(vars(plain)) == {"handle", "shape", "numel", "type", "dtype"}
    if hasattr(original, "builds_once") or original_broadcast is None or not as_we_know_them:
        return
    built = {}  # a type's element and sizes: its fields

    def block_type(self, element_ty, shape):
        key = element_ty.name, *(getattr(size, "value", size) for size in shape)
        if key not in built:
            original(self, element_ty, shape)
            self.shape_of_tensor = tl.tuple([tl.constexpr(size) for size in self.shape])
            self.numel_of_tensor = tl.constexpr(self.numel)
            built[key] = dict(vars(self))
        vars(self).update(built[key])

    def tensor(self, handle, type):
        if not type.is_block():
            original_tensor(self, handle, type)
            return
        self.handle, self.type, self.dtype = handle, type, type.element_ty
        self.shape, self.numel = type.shape_of_tensor, type.numel_of_tensor

    def broadcast(self, lhs, rhs):
        blocks = lhs.type.is_block() and rhs.type.is_block()
        if blocks and lhs.type.shape.values == rhs.type.shape.values:
            return lhs, rhs
        return original_broadcast(self, lhs, rhs)

    block_type.builds_once = True
    tl.block_type.__init__ = block_type
    tl.tensor.__init__ = tensor
    TritonSemantic.broadcast_impl_value = broadcast


def _look_numpys_dtypes_up_once(interpreter) -> None:
    original = getattr(interpreter, "_get_np_dtype", None)
    if original is None or hasattr(original, "found"):
        return
    found = {}

    def np_dtype(dtype):
        name = dtype.scalar.name
        if name not in found:
            found[name] = original(dtype)
        return found[name]

    np_dtype.found = found
    interpreter._get_np_dtype = np_dtype
