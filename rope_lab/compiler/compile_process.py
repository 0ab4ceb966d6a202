"""The child process of `compile.py`: `worker.py` passes it jobs. It imports Triton, not torch."""

import base64
import contextlib
import io
import os
import re
import shutil
import sys
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime import driver
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor


class DType(str):
    """A torch dtype by its name, with the attributes that a descriptor reads."""

    @property
    def itemsize(self) -> int:
        bits = re.search(r"\d+", self)
        return int(bits[0]) // 8 if bits else 1  # of bool

    @property
    def is_floating_point(self) -> bool:
        return "float" in self


class Memory:
    """What the JIT reads of a tensor: the dtype's name, the address, and the memory's size.

    (Importing torch would take longer than compiling the kernel.)
    """

    def __init__(self, dtype: str, aligned: bool, nbytes: int) -> None:
        self.dtype, self.aligned, self.nbytes = DType(dtype), aligned, nbytes

    def data_ptr(self) -> int:
        return 16 if self.aligned else 1

    def ptr_range(self) -> int:
        """AMD's backend reads it: up to 2 GiB, it may address memory as a buffer."""
        return self.nbytes


def frozen(kind: str, **values: object) -> object:
    """A kernel's constants: a frozen dataclass of these values."""
    return make_dataclass(kind, values, frozen=True)(**values)


def start(folder: Path) -> None:
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")  # Triton reads it when it compiles
    os.environ["TRITON_DUMP_PTXAS_LOG"] = "1"  # the log has registers, spills and the stack


class Checked(Exception):
    """A check is done: the kernel's shared memory is known."""


def answer(job: dict, folder: Path, tell: Callable[[str], None]) -> dict:
    """The compiled kernel.

    If Triton refuses it, `refused`, and whether a tuner `passes_over` that; `machine` if there is
    no room on the disk or in memory; after any other error, nothing. The whole error is on standard
    error.
    """
    try:
        return work_on(job, folder)
    except Checked as done:
        return {"shared": done.args[0]}
    except (OSError, MemoryError) as error:
        return {"machine": f"{type(error).__name__}: {error}"}
    except Exception as error:  # whatever it is, the parent reports it
        traceback.print_exc()
        sys.stderr.flush()
        if not is_tritons(error):
            return {}
        return {"refused": sentence_of(error), "passes_over": passes_over(error)}
    finally:
        shutil.rmtree(folder / "cache", ignore_errors=True)


def work_on(job: dict, folder: Path) -> dict:
    source = folder / "program.py"
    source.write_text(job["program"], encoding="utf-8")
    names = {"__name__": source.stem}
    exec(compile(job["program"], source, "exec"), names)  # not imported: each job has its own
    kernel = names[job["kernel"]]
    while not isinstance(kernel, JITFunction):  # a tuner or a heuristic; the call has its values
        kernel = kernel.fn
    gpu = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget(*job["target"]),
    )
    driver.set_active(gpu)  # otherwise Triton would look for a GPU in this machine
    known = {"Memory": Memory, "TensorDescriptor": TensorDescriptor, "tl": tl}
    known |= {"namedtuple": namedtuple, "frozen": frozen}
    stop = stops_before_ptx() if job.get("check") else contextlib.nullcontext()
    with stop, contextlib.redirect_stdout(io.StringIO()) as log:
        launch = partial(kernel.warmup, grid=(1,))
        compiled = eval(f"launch({job['call']})", known | {"launch": launch})

    is_nvidia = "ptx" in compiled.asm
    last, binary = ("ptx", "cubin") if is_nvidia else ("amdgcn", "hsaco")
    answer = {
        "stages": {stage: str(compiled.asm[stage]) for stage in ("ttir", "ttgir", "llir", last)},
        "binary": base64.b64encode(compiled.asm[binary]).decode(),
        "shared": compiled.metadata.shared,
    }
    return answer | (report_of_ptxas(log.getvalue()) if is_nvidia else {})


@contextlib.contextmanager
def stops_before_ptx() -> Iterator[None]:
    """Make the compiler raise `Checked` when a kernel has become LLVM IR, without optimizing it.

    Triton has refused bad kernels by then, and LLVM takes seconds for large blocks.
    """
    from triton.backends.nvidia.compiler import CUDABackend

    def stop(self, module, metadata: dict, *_):
        raise Checked(metadata["shared"])

    with patch.object(CUDABackend, "make_ptx", stop), patch.dict(os.environ, DISABLE_LLVM_OPT="1"):
        yield


def is_tritons(error: Exception) -> bool:
    """Whether an error means that Triton refuses the kernel.

    Triton wraps errors within a kernel, so a bare TypeError or AttributeError is about an
    argument's stand-in; but strings have none. An error in the program around the kernel happens
    before the compiler is called.
    """
    if "failed to specialize argument of type: str" in str(error):
        return True
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return "warmup" in frames and not isinstance(error, TypeError | AttributeError)


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


def report_of_ptxas(log: str) -> dict[str, int]:
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) \D+ (\d+) bytes spill loads", log).groups()
    )
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    return {"registers": registers, "spilled": stores + loads, "stack": stack}
