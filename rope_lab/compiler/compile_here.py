"""Triton's compiler in this process, for a GPU that need not be here.

Importing this loads Triton.
"""

import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from tempfile import TemporaryDirectory, TemporaryFile
from types import SimpleNamespace
from unittest.mock import patch

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from ..run import compiling, replaced
from ..standalone import globals_of, text_of
from .launch_limits import Refused


class Memory:
    """What the JIT reads of a tensor: the dtype, the address, and the memory's size.

    A tensor without memory, on 'meta' or a fake one, has the address 0 whatever its offset is.
    """

    def __init__(self, x: Tensor) -> None:
        memory = 0 if isinstance(x, FakeTensor) else x.data_ptr()
        self.dtype = x.dtype
        self.begin = memory or 256 + x.storage_offset() * x.element_size()
        self.nbytes = x.untyped_storage().nbytes()

    def data_ptr(self) -> int:
        return self.begin

    def ptr_range(self) -> int:
        """AMD's backend reads it: up to 2 GiB, it may address memory as a buffer."""
        return self.nbytes


def seen_by_the_jit(argument: object) -> object:
    """An argument of a launch, with a `Memory` for each tensor."""
    given = tuple(argument) if isinstance(argument, list) else argument
    return replaced(given, lambda _, tensor: Memory(tensor))


class Checked(Exception):
    """A check is done: the kernel's shared memory is known."""


def compiled(
    kernel: JITFunction, gpu: str, target: tuple, arguments: tuple, options: dict, *, check: bool
) -> dict:
    """The stages of a kernel, its shared memory, and what ptxas says of it.

    Raises:
        Refused: Triton refuses it.
        OSError, MemoryError: there is no room on the disk or in memory.
    """
    driver_of_gpu = SimpleNamespace(
        get_current_device=lambda: target,  # of its own, so that no launch finds this kernel
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget(*target),
    )
    log: list[str] = []
    words: list[str] = []
    try:
        with (
            compiling(),
            _forgotten(kernel, target),
            _driven_by(driver_of_gpu),
            _printed_by_ptxas(log),
            _written_by_c(words),
            TemporaryDirectory() as cache,  # where nothing is, or ptxas would report nothing
            patch.dict(os.environ, TRITON_CACHE_DIR=cache, TRITON_DUMP_PTXAS_LOG="1"),
            _stops_before_llvm() if check else nullcontext(),
        ):
            made = kernel.warmup(*arguments, grid=(1,), **options)
    except Checked as done:
        return {"shared": done.args[0]}
    except (OSError, MemoryError):
        raise
    except Exception as error:  # whatever it is, it is Triton's
        sentence, line = sentence_of(error)
        said = f"{''.join(words)}{traceback.format_exc()}"
        if "PassManager" in sentence:  # its reason is only on standard error
            sentence = _last_line("".join(words) or said)
        skipped = passes_over(error)
        name = kernel.fn.__name__
        raise Refused(name, gpu, sentence, line, passes_over=skipped, words=said) from None
    return _fields_of(made, "\n".join(log))


def _fields_of(made: object, log: str) -> dict:
    is_nvidia = "ptx" in made.asm
    last, binary = ("ptx", "cubin") if is_nvidia else ("amdgcn", "hsaco")
    fields = {
        "stages": {stage: str(made.asm[stage]) for stage in ("ttir", "ttgir", "llir", last)},
        "binary": made.asm[binary],
        "shared": made.metadata.shared,
    }
    return fields | (report_of_ptxas(log) if is_nvidia else {})


@contextmanager
def _driven_by(gpu: object) -> Iterator[None]:
    """Otherwise Triton would look for a GPU in this machine, or compile for the one that is."""
    before = dict(vars(driver))
    driver.set_active(gpu)
    try:
        yield
    finally:
        vars(driver).update(before)


@contextmanager
def _forgotten(kernel: JITFunction, target: tuple) -> Iterator[None]:
    """Compile a kernel as it is now, and leave it as if it hadn't been compiled.

    Triton computes a kernel's hash once, and then refuses it if one of its globals has changed.
    """
    names = "hash", "used_global_vals"
    before = [(one, {name: vars(one)[name] for name in names}) for one in kernels_in(kernel)]
    for one, _ in before:
        one.hash = None
    try:
        yield
    finally:
        kernel.device_caches.pop(target, None)
        for one, own in before:
            vars(one).update(own)


def forget_compiled(kernel: JITFunction) -> None:
    """Let the next launch compile a kernel as it is now.

    Triton keeps the compiled kernel when a function that it calls is defined again.
    """
    for one in kernels_in(kernel):
        one.hash = None
        one.device_caches.clear()


@contextmanager
def _printed_by_ptxas(log: list[str]) -> Iterator[None]:
    """Not by `redirect_stdout`, which other threads would see."""
    from triton.backends.nvidia import compiler

    with patch.object(compiler, "print", lambda *words: log.append(str(words[0])), create=True):
        yield


@contextmanager
def _written_by_c(words: list[str]) -> Iterator[None]:
    """Collect what C++ code writes to standard error, where MLIR says its reasons."""
    sys.stderr.flush()
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        own = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(own, 2)
            os.close(own)
            file.seek(0)
            words.append(file.read())


def _stops_before_llvm() -> AbstractContextManager:
    """Make the compiler raise `Checked` when it would hand a kernel to LLVM.

    Triton has refused bad kernels by then, and LLVM takes longer than all before it.
    """
    from triton.backends.nvidia import compiler

    def stop(module: object, *_) -> None:
        raise Checked(module.get_int_attr("ttg.shared"))

    return patch.object(compiler.llvm, "to_module", stop)


def passes_over(error: Exception) -> bool:
    """Whether a tuner takes another configuration after this error (`Autotuner._bench`)."""
    return type(error).__name__ in ("CompileTimeAssertionFailure", "OutOfResources", "PTXASError")


def sentence_of(error: BaseException) -> tuple[str, str]:
    """Triton's error as a sentence, and the kernel's line with the error."""
    line, text = "", ""
    while error is not None:
        text = str(error)
        if isinstance(error, CompilationError):
            text = error.error_message or text
            if error.src and hasattr(error.node, "lineno"):
                line = error.src.splitlines()[error.node.lineno - 1].strip()
        error = error.__cause__
    if quoted := re.fullmatch(r"\w+\((['\"])(.*)\1\)", text, re.DOTALL):  # the repr of an error
        text = quoted[2]
    text = re.sub(r" at 0x\w+", "", text.strip())
    return text.partition(". Triton kernels can only")[0], line


def _last_line(reason: str) -> str:
    """The last line with an error; without its place in the source."""
    lines = reason.strip().splitlines()
    found = [line.strip() for line in lines if "error" in line.lower()]
    told = (found or lines)[-1].strip()
    told = f"{told} {lines[-1].strip()}" if told.endswith(":") and told != lines[-1] else told
    return told.rpartition("error: ")[2]


def report_of_ptxas(log: str) -> dict[str, int]:
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) \D+ (\d+) bytes spill loads", log).groups()
    )
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    return {"registers": registers, "spilled": stores + loads, "stack": stack}


# the source of a kernel


def kernel_in(kernel: object) -> object:
    """The kernel in a tuner or a heuristic; a launch has the values that these choose."""
    while hasattr(getattr(kernel, "fn", None), "fn"):
        kernel = kernel.fn
    return kernel


def kernels_in(kernel: object) -> list:
    """A kernel and those that it calls, but Triton's own."""
    found = [kernel]
    for one in found:
        for called in map(kernel_in, _names_in(one).values()):
            is_kernel = hasattr(called, "fn") and type(called).__module__.startswith("triton.")
            is_tritons = is_kernel and called.fn.__module__.startswith("triton.")
            if is_kernel and not is_tritons and all(called is not other for other in found):
                found.append(called)
    return found


def _names_in(kernel: object) -> dict[str, object]:
    """What a kernel's function uses from around it, by name."""
    return globals_of(kernel.fn, text_of(kernel.fn))


def sources_of(kernel: object) -> list[str]:
    """The source of a kernel and of those that it calls, and the constants that they use."""
    found = []
    for one in kernels_in(kernel):
        constants = ((name, getattr(x, "value", None)) for name, x in _names_in(one).items())
        found += [f"{name} = {x!r}" for name, x in constants if isinstance(x, int | float | str)]
        found.append(text_of(one.fn))
    return found


def program_of(kernel: object) -> str:
    """The source of a kernel and of those that it calls, each line where it is in the file.

    All other lines of the file are empty. Kernels of other files come after.
    """
    rows, others = {}, []
    for one in kernels_in(kernel):
        lines, (_, first) = text_of(one.fn).splitlines(), inspect.getsourcelines(one.fn)
        if one.fn.__code__.co_filename == kernel.fn.__code__.co_filename:
            rows |= dict(enumerate(lines, max(first, 1)))
        else:
            others += ["", *lines]
    own = [rows.get(row, "") for row in range(1, 1 + max(rows))]
    return "\n".join([*own, *others]) + "\n"
