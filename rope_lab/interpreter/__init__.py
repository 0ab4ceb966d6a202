"""Make Triton's interpreter skip work that has no effect, and fix it where it differs from a GPU.

`speed_up` shortens `rope_qk` forward and backward (32 positions, fp32) from 1235 to 171 ms: 535 by
`_replace_functions_once_a_launch` and 171 by `_skip_overflow_checks`. Compiled kernels drop that
check as dead code: https://github.com/facebookexperimental/triton/pull/769
"""

from dataclasses import replace
from functools import cache, wraps
from types import FunctionType

import numpy as np

from rope_kernels.paths import triton_is_installed

from ..run import run_where_tensors_are
from .functions import let_libdevice_run
from .tuners import let_tuners_run


def speed_up() -> None:
    """Let this process interpret kernels faster, with the same results; harmless if called again.

    Loads Triton, if there is one.
    """
    if not triton_is_installed():
        return
    from triton.runtime import interpreter

    _replace_functions_once_a_launch(interpreter)
    _skip_overflow_checks(interpreter)
    _build_types_once()
    _meet_in_known_types(interpreter)
    _compare_shapes_once()
    _make_arrays_directly(interpreter)
    _look_numpys_dtypes_up_once(interpreter)


def run_as_compiled() -> None:
    """Let kernels run where their tensors are, and be interpreted as a GPU runs them, and faster.

    Loads Triton, if there is one.
    """
    if not triton_is_installed():
        return
    from .as_compiled import let_dots_take_tf32, let_every_constexpr_be_one, let_flags_wrap
    from .bf16 import let_bf16_round
    from .reductions import let_reductions_take_blocks

    speed_up()
    let_floats_be_numbers()
    let_libdevice_run()
    let_methods_run()
    let_tuners_run()
    let_fma_round_once()
    let_flags_wrap()
    let_every_constexpr_be_one()
    let_reductions_take_blocks()
    let_dots_take_tf32()
    let_bf16_round()
    run_where_tensors_are()


@cache
def let_floats_be_numbers() -> None:
    """Let `eps.to(tl.float32)` run in an interpreted kernel, from now on.

    In a compiled kernel, a float argument is an fp32 scalar, and an integer is an int32 scalar. The
    interpreter converts only the integer.
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


@cache
def let_fma_round_once() -> None:
    """Let `tl.fma` of fp32 round once, from now on, as on a GPU: the interpreter rounds twice.

    A reduction of large angles depends on the exact product.
    """
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    original = InterpreterBuilder.create_fma

    def create_fma(self, x, y, z):
        if x.data.dtype != np.float32:
            return original(self, x, y, z)
        exact = x.data.astype(np.float64) * y.data + z.data
        return TensorHandle(exact.astype(np.float32), z.dtype.scalar)

    InterpreterBuilder.create_fma = create_fma


@cache
def let_methods_run() -> None:
    """Let `x.cos()` run in an interpreted kernel, from now on, as it does in a compiled one.

    The interpreter passes itself to `tl.cos`, which is marked as a builtin. The method is not.
    """
    from triton import language as tl
    from triton.runtime.interpreter import interpreter_semantic

    def handed_over(method: FunctionType) -> FunctionType:
        @wraps(method)
        def call(*given, _semantic=None, **options):
            return method(*given, _semantic=_semantic or interpreter_semantic, **options)

        return call

    for name, function in vars(tl.math).items():
        method = vars(tl.tensor).get(name)
        if tl.core.is_builtin(function) and method and not tl.core.is_builtin(method):
            setattr(tl.tensor, name, handed_over(method))
    # NumPy's functions would call these methods, but the compiler refuses `np.cos(x)`.
    tl.tensor.__array_ufunc__ = None


@cache
def _replace_functions_once_a_launch(interpreter) -> None:
    """Search for the functions to replace at the first launch only.

    Before a kernel runs, the interpreter replaces functions of `triton.language` by its own. It
    searches for them at each launch and each call of a `@triton.jit` function. The interpreter of
    Triton 3.5 is left as it is.
    """
    from triton import language as tl

    original = getattr(interpreter, "_patch_lang", None)
    scope_of = getattr(interpreter, "_LangPatchScope", None)
    original_attr = getattr(interpreter, "_patch_attr", None)
    if None in (original, scope_of, original_attr):
        return
    checked = getattr(tl.load, "__code__", None)  # of every function of the language
    modules_of, changes_of = {}, {}  # what a kernel sees, and what is replaced there
    parts = [
        name for name in vars(interpreter) if name.startswith("_patch_") and name != "_patch_lang"
    ]

    def patch(fn: FunctionType) -> object:
        if fn not in modules_of:
            seen = {id(x): x for x in fn.__globals__.values() if x is tl or x is tl.core}
            modules_of[fn] = tuple(seen.values())
        modules = modules_of[fn]
        if not modules:
            return original(fn)
        scope = scope_of()
        if not any(tl.core.is_builtin(module.load) for module in modules):
            return scope  # Triton's functions are replaced already
        by = [getattr(interpreter, name) for name in parts]  # a trace has its own functions
        if modules in changes_of and changes_of[modules][0] == by:
            for change in changes_of[modules][1]:
                scope.set_attr(*change)
            return scope
        scope = original(fn)
        changes = [(x, name, vars(x)[name]) for x, name, _ in scope._changes]
        changes_of[modules] = by, changes
        return scope

    def patch_attr(obj, name, member, builder, scope) -> None:
        """Skip a search for the argument that is then overwritten, twice a call."""
        function = getattr(member, "__wrapped__", None)
        if function is None or getattr(member, "__code__", None) is not checked:
            original_attr(obj, name, member, builder, scope)
            return

        def call(*given, **options):
            options["_semantic"] = semantic
            return function(*given, **options)

        scope.set_attr(obj, name, call)

    semantic = interpreter.interpreter_semantic
    interpreter._patch_lang, interpreter._patch_attr = patch, patch_attr


def _skip_overflow_checks(interpreter) -> None:
    """The checks compute integers a second time, and only the option `debug` uses them."""
    builder = interpreter.interpreter_builder
    if not builder.options.debug:
        builder.options = replace(builder.options, sanitize_overflow=False)


@cache
def _build_types_once() -> None:
    from triton import language as tl

    plain = tl.tensor(None, tl.block_type(tl.float32, [2]))
    if set(vars(plain)) != {"handle", "shape", "numel", "type", "dtype"}:
        return
    original, built = tl.block_type.__init__, {}  # a type's element and sizes: its fields
    one, no_sizes = tl.constexpr(1), tl.tuple([])

    def block_type(self, element_ty, shape):
        key = element_ty.name, *(getattr(size, "value", size) for size in shape)
        if key not in built:
            original(self, element_ty, shape)
            self.shape_of_tensor = tl.tuple([tl.constexpr(size) for size in self.shape])
            self.numel_of_tensor = tl.constexpr(self.numel)
            built[key] = dict(vars(self))
        vars(self).update(built[key])

    def tensor(self, handle, type):
        self.handle, self.type = handle, type
        if type.is_block():
            self.dtype = type.element_ty
            self.shape, self.numel = type.shape_of_tensor, type.numel_of_tensor
        else:
            self.dtype, self.shape, self.numel = type, no_sizes, one

    tl.block_type.__init__, tl.tensor.__init__ = block_type, tensor


@cache
def _meet_in_known_types(interpreter) -> None:
    from triton import language as tl
    from triton.language.semantic import TritonSemantic

    original = TritonSemantic.binary_op_type_checking_impl
    integers = {*tl.dtype.SINT_TYPES, *tl.dtype.UINT_TYPES}
    numbers = integers | {*tl.dtype.STANDARD_FP_TYPES}
    constants = {}  # a number and a type: the number as one

    def check(self, lhs, rhs, *rules, **more):
        """Two operands, in one dtype and shape. Rules: may the left be a pointer, the right, ..."""
        interpreted = self is interpreter.interpreter_semantic and isinstance(lhs, tl.tensor)
        if not interpreted or more or (len(rules) > 2 and lhs.dtype.name not in integers):
            return original(self, lhs, rhs, *rules, **more)
        if not isinstance(rhs, tl.tensor):
            key = type(rhs), rhs, lhs.type.name
            if key in constants:
                return lhs, constants[key]
            left, right = original(self, lhs, rhs, *rules)
            if left is lhs and rhs == rhs and len(constants) < 512:
                constants[key] = right
            return left, right
        to_pointer = rules[:1] == (True,) and lhs.dtype.is_ptr() and rhs.dtype.name in integers
        if to_pointer or lhs.dtype.name == rhs.dtype.name in numbers:
            return self.broadcast_impl_value(lhs, rhs)
        return original(self, lhs, rhs, *rules)

    TritonSemantic.binary_op_type_checking_impl = check


@cache
def _compare_shapes_once() -> None:
    from triton import language as tl
    from triton.language.semantic import TritonSemantic

    original = TritonSemantic.broadcast_impl_value

    def broadcast(self, lhs, rhs):
        if not (lhs.type.is_block() and rhs.type.is_block()):
            return original(self, lhs, rhs)
        one, other = lhs.type.shape.values, rhs.type.shape.values
        if one == other:
            return lhs, rhs
        pairs = [*zip(one, other, strict=False)]
        if len(one) != len(other) or any(x != y and 1 not in (x, y) for x, y in pairs):
            return original(self, lhs, rhs)
        both = [*map(max, pairs)]
        return spread(self, lhs, both), spread(self, rhs, both)

    def spread(self, block, sizes):
        if block.type.shape.values == sizes:
            return block
        kind = tl.block_type(block.dtype, sizes)
        handle = self.builder.create_broadcast(block.handle, sizes)
        return self.tensor(handle, kind)

    TritonSemantic.broadcast_impl_value = broadcast


@cache
def _make_arrays_directly(interpreter) -> None:
    from triton import language as tl

    original, builder = tl.block_type.to_ir, interpreter.InterpreterBuilder

    def to_ir(self, builder):
        return self if builder is interpreter.interpreter_builder else original(self, builder)

    def create_broadcast(self, block, sizes):
        data = np.empty(sizes, block.data.dtype)
        data[...] = block.data
        return interpreter.TensorHandle(data, block.dtype.scalar)

    def create_splat(self, kind, number):
        # `i < n` of two numbers has the dtype of `i`, and stays a mask: Triton 3.9 would refuse it
        return create_broadcast(self, number, kind.shape.values)

    def create_expand_dims(self, block, axis):
        data = block.data[(slice(None),) * axis + (None,)]
        return interpreter.TensorHandle(data, block.dtype.scalar)

    tl.block_type.to_ir = to_ir
    builder.create_broadcast, builder.create_splat = create_broadcast, create_splat
    builder.create_expand_dims = create_expand_dims


@cache
def _look_numpys_dtypes_up_once(interpreter) -> None:
    original, found = interpreter._get_np_dtype, {}

    def np_dtype(dtype):
        name = dtype.scalar.name
        if name not in found:
            found[name] = original(dtype)
        return found[name]

    interpreter._get_np_dtype = np_dtype
