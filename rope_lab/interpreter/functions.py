"""Run libdevice's functions in Triton's interpreter, or explain that they can't run.

Triton's interpreter has no libdevice functions: a call returns None, which leads to an error in a
later line. Here, those that Triton or NumPy has by the same name are computed in the dtype of their
arguments. A hardware approximation such as `fast_sinf` becomes the exact function. Other functions,
and inline assembly, raise `CannotBeInterpreted`.
"""

import functools
from collections.abc import Callable
from types import CodeType, FunctionType

import numpy as np

# What counts as an evaluation, by the names in libdevice and in the interpreter's builder
EVALUATED = (
    *("sin", "cos", "tanh", "sinh", "cosh", "exp", "exp2", "log", "log2"),
    *("sqrt", "rsqrt", "erf"),
)


class CannotBeInterpreted(NotImplementedError):
    """A kernel uses what Triton's interpreter can't run; the message says what to do instead."""

    def __init__(
        self, what: str, advice: str = "write it with functions of triton.language"
    ) -> None:
        super().__init__(f"{what} does not run in Triton's interpreter, which judges: {advice}")


def cannot_be_interpreted(error: BaseException) -> str:
    """The sentence of a `CannotBeInterpreted` in the chain of an error; '' if there is none."""
    while error is not None and not isinstance(error, CannotBeInterpreted):
        error = error.__cause__
    return str(error or "")


@functools.cache
def let_libdevice_run() -> None:
    """Give an interpreted kernel the functions above, from now on; harmless if called again."""
    from triton.language import core
    from triton.language.extra import cuda, libdevice
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    for name in ("tanh", "sinh", "cosh"):  # `Watch` counts them like a sine
        evaluate = functools.partialmethod(builder.unary_op, op=getattr(np, name))
        setattr(builder, f"create_{name}", evaluate)
    builder.create_extern_elementwise = _extern
    builder.create_inline_asm = _refused("tl.inline_asm_elementwise")
    libdevice.in_the_interpreter = calls = {}
    for name, stub in [*vars(libdevice).items()]:
        if isinstance(stub, FunctionType):
            function = vars(cuda.libdevice).get(name)
            what = f"libdevice.{name}, which NVIDIA's GPUs lack,"
            calls[name] = _interpreted(name, function) if function else _refused(what)
            # a kernel's module may have imported it already, so it stays the same object
            stub.__code__ = _code_of(f"in_the_interpreter[{name!r}](*arguments, **options)")
    for name, function in [*vars(cuda.libdevice).items()]:
        if core.is_builtin(function):
            setattr(cuda.libdevice, name, _interpreted(name, function))


def _code_of(expression: str) -> CodeType:
    """The code of a function that returns what an expression makes of its arguments."""
    names: dict[str, FunctionType] = {}
    exec(f"def function(*arguments, **options):\n    return {expression}", names)
    return names["function"].__code__


def _interpreted(name: str, function: Callable) -> Callable:
    """libdevice's `function` for an interpreted kernel, and for a compiled one."""

    @functools.wraps(function)  # so that the compiler knows it
    def call(*arguments, _semantic=None):
        from triton.runtime.interpreter import interpreter_semantic

        try:
            return function(*arguments, _semantic=_semantic or interpreter_semantic)
        except KeyError as missing:  # Triton looks the types up in a dict
            kinds = ", ".join(map(str, missing.args[0]))
            message = f"libdevice.{name} takes no {kinds}; cast before, as x.to(tl.float32)"
            raise TypeError(message) from None

    return call


def _refused(what: str) -> Callable:
    def refuse(*_, **__):
        raise CannotBeInterpreted(what)

    return refuse


def _extern(self, library, path, symbol, arguments, kind, is_pure):
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    name = symbol.removeprefix("__nv_")
    short = name.removesuffix("f")  # the same function for fp32
    if made := _BY_THE_BUILDER.get(name) or _BY_THE_BUILDER.get(short):
        (x,) = arguments
        result = getattr(self, f"create_{made}")(x).data
    elif function := _FUNCTIONS.get(name) or _FUNCTIONS.get(short):
        with np.errstate(all="ignore"):
            result = function(*(x.data for x in arguments))
    else:
        raise CannotBeInterpreted(f"libdevice's {name}")
    return TensorHandle(np.asarray(result).astype(_get_np_dtype(kind)), kind.scalar)


_BY_THE_BUILDER = {  # libdevice's name -> the builder's, so that evaluations are counted
    **{name: name for name in EVALUATED},
    "fast_sinf": "sin",
    "fast_cosf": "cos",
    "fast_expf": "exp",
    "fast_logf": "log",
    "fast_log2f": "log2",
    "frsqrt_rn": "rsqrt",
}
_FUNCTIONS = {name: one for name, one in vars(np).items() if isinstance(one, np.ufunc)}
_FUNCTIONS |= {  # functions that NumPy lacks, or that have another name or meaning there
    "powi": np.power,
    "fast_powf": np.power,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "fma": lambda x, y, z: x.astype(float) * y + z,
}
