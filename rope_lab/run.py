"""A kernel runs where its tensors are: on a GPU compiled, on a CPU in Triton's interpreter.

Triton itself decides for a whole process, when it is loaded (TRITON_INTERPRET). Here it is loaded
with its compiler, and each launch decides. Tensors in pinned memory are on the CPU, unless another
one is on a GPU, which can read them. A launch without tensors runs where a notebook's tensors are.

If there is no compiler, or Triton was loaded for its interpreter, `triton.jit` has made interpreted
kernels, and nothing of this is needed.
"""

import functools
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from rope_kernels import paths

from .standalone import function_of

MAKE_IT_THERE = "make it where the inputs are, as by device=x.device"
IN_THE_INTERPRETER = (
    "this launch has its tensors on the CPU, so Triton's interpreter runs it, slowly: for the GPU, "
    "make them by device=lab.device"
)
# The interpreter replaces functions of `triton.language`, where the compiler looks for them, too.
ONE_AT_A_TIME = threading.RLock()
_before: list[tuple[object, dict[str, object]]] = []  # owner -> its names as the compiler has them
_kernels: dict[tuple, object] = {}  # a function and its code -> its interpreted kernel
_KEPT = {"interpreter_semantic", "tl"}  # the globals that an interpreted kernel needs


class Now:
    """What holds for launches at this moment.

    Attributes:
        forced: "interpreted" or "compiled" in a context that decides for all; otherwise ''.
        depth: of launches and contexts that interpret, one in the other.
        device: where launches without tensors run; `engine.py` sets it.
        warns: whether a launch that is interpreted where there is a GPU says so.
    """

    forced, depth, device, warns = "", 0, "cpu", True


@functools.cache
def run_where_tensors_are() -> None:
    """Let launches with tensors on a CPU be interpreted, from now on; loads Triton."""
    from triton.runtime.jit import JITFunction

    JITFunction.run = _run(JITFunction.run)
    JITFunction.__call__ = _call(JITFunction.__call__)
    paths.interpret_on_a_cpu()


@contextmanager
def interpreting() -> Iterator[None]:
    """In this context every kernel is interpreted, whatever its arguments are."""
    with ONE_AT_A_TIME, _forced("interpreted"):
        if Now.depth == 0:
            as_compiled()  # an interrupt may have come before
            _replace()
        Now.depth += 1
        try:
            yield
        finally:
            Now.depth -= 1
            if Now.depth == 0:
                as_compiled()


@contextmanager
def compiling() -> Iterator[None]:
    """In this context every kernel is compiled, and `triton.language` is the compiler's."""
    with ONE_AT_A_TIME, _forced("compiled"):
        as_compiled()
        yield


@contextmanager
def _forced(how: str) -> Iterator[None]:
    before, Now.forced = Now.forced, how
    try:
        yield
    finally:
        Now.forced = before


def as_compiled() -> None:
    """Give `triton.language` back what the interpreter has replaced; harmless if called again.

    Triton does so after a launch, but not after a call of a kernel by another.
    """
    while _before:
        owner, names = _before[-1]
        for name in [*vars(owner)]:
            if name not in names:
                delattr(owner, name)
            elif vars(owner)[name] is not names[name]:
                setattr(owner, name, names[name])
        _before.pop()


def _replace() -> None:
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    owners = tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.core.tensor_descriptor_base
    _before.extend((owner, dict(vars(owner))) for owner in owners)
    for name, method in [*vars(tl.tensor).items()]:
        if isinstance(method, JITFunction):  # the compiler binds it, and Python does not
            setattr(tl.tensor, name, _method(method))
    for kernel in [key for key in _kernels if key[0].__closure__]:
        del _kernels[kernel]  # what is around it may have changed since


def _method(kernel: object) -> Callable:
    return lambda self, *rest, **named: kernel(self, *rest, **named)


def _interpreted(function: types.FunctionType) -> object:
    """The interpreted kernel of a function, whose code a reload may have replaced."""
    key = function, function.__code__
    if key not in _kernels:
        _kernels[key] = _made(function)
    return _kernels[key]


def _made(function: types.FunctionType) -> object:
    from triton.runtime.interpreter import InterpretedFunction

    if function.__closure__:  # the interpreter knows globals only
        cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
        around = function.__globals__ | {name: cell.cell_contents for name, cell in cells}
        own = function
        function = types.FunctionType(own.__code__, around, own.__name__, None, own.__closure__)
        functools.update_wrapper(function, own)
        del function.__wrapped__
    known = {*function.__globals__}
    kernel = InterpretedFunction(function)
    kernel.rewritten_fn.pop(function, None)  # of the code that a reload has replaced
    kernel.rewrite()
    for name in function.__globals__.keys() - known - _KEPT:
        del function.__globals__[name]  # Triton adds some forty
    return kernel


def _run(compiled: Callable) -> Callable:
    from triton.runtime.interpreter import InterpretedFunction

    # not what `launched_by` has instead; in Triton 3.5, each kernel has its own
    interpreted = getattr(InterpretedFunction, "run", lambda own, *x, **named: own.run(*x, **named))

    @functools.wraps(compiled)
    def run(kernel, /, *arguments, grid, warmup=False, **options):
        if not is_interpreted(kernel, arguments, options):
            with ONE_AT_A_TIME:  # it may be compiled
                return compiled(kernel, *arguments, grid=grid, warmup=warmup, **options)
        with interpreting():
            own = _interpreted(kernel.fn)
            own.pre_run_hooks = kernel.pre_run_hooks
            return interpreted(own, *arguments, grid=grid, warmup=warmup, **options)

    return run


def _call(compiled: Callable) -> Callable:
    @functools.wraps(compiled)
    def call(kernel, *arguments, **options):
        if Now.forced != "interpreted":
            return compiled(kernel, *arguments, **options)
        options.pop("_semantic", None)
        return _interpreted(kernel.fn)(*arguments, **options)

    return call


def is_interpreted(kernel: object, arguments: tuple, options: dict[str, object]) -> bool:
    """Whether a launch of a kernel or a tuner runs in the interpreter.

    Raises:
        ValueError: it has tensors on two devices.
    """
    with ONE_AT_A_TIME:  # or it could be forced for another thread
        if Now.forced:
            return Now.forced == "interpreted"
    tensors = tensors_in(dict(zip(kernel.arg_names, arguments, strict=False)) | options)
    on_a_cpu = {x.is_cpu: name for name, x in reversed(tensors)}  # the first of each
    if len(on_a_cpu) > 1:
        on_a_cpu = {x.is_cpu: name for name, x in tensors if not (x.is_cpu and x.is_pinned())}
    if len(on_a_cpu) > 1:
        words = f"{on_a_cpu[True]} is on the CPU, and {on_a_cpu[False]} on the GPU"
        raise ValueError(f"{function_of(kernel).__name__}: {words}: {MAKE_IT_THERE}")
    if not on_a_cpu:
        return Now.device == "cpu"
    if True in on_a_cpu and Now.warns and torch.cuda.is_available():
        Now.warns = False
        warnings.warn(IN_THE_INTERPRETER, stacklevel=4)
    return True in on_a_cpu


def replaced(value: object, by: Callable[[str, Tensor], object], name: str = "") -> object:
    """Arguments of a launch, with `by(name, tensor)` for each tensor in them."""
    if isinstance(value, Tensor):
        return by(name, value)
    if type(value).__name__ == "TensorDescriptor":
        return replace(value, base=by(name, value.base))
    if isinstance(value, dict):
        return {key: replaced(item, by, key) for key, item in value.items()}
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", range(len(value)))
        items = [replaced(x, by, f"{name}.{k}") for k, x in zip(fields, value, strict=True)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def tensors_in(arguments: dict[str, object]) -> list[tuple[str, Tensor]]:
    """The tensors of a launch by name."""
    found: list[tuple[str, Tensor]] = []

    def note(name: str, tensor: Tensor) -> Tensor:
        found.append((name, tensor))
        return tensor

    replaced(arguments, note)
    return found
