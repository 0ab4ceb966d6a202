"""The child process of `compile.py`: `worker.py` calls it with jobs. It has Triton, no torch."""

import base64
import contextlib
import io
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor


class DType(str):
    """torch's dtype by its name, and what a descriptor asks it."""

    @property
    def itemsize(self) -> int:
        bits = re.search(r"\d+", self)
        return int(bits[0]) // 8 if bits else 1  # of bool

    @property
    def is_floating_point(self) -> bool:
        return "float" in self


class Memory:
    """A tensor as far as the JIT looks at it: a dtype's name, its address, and its memory's size.

    (torch itself would take longer to import than the kernel to compile.)
    """

    def __init__(self, dtype: str, aligned: bool, nbytes: int) -> None:
        self.dtype, self.aligned, self.nbytes = DType(dtype), aligned, nbytes

    def data_ptr(self) -> int:
        return 16 if self.aligned else 1

    def ptr_range(self) -> int:
        """What AMD's backend asks: up to 2 GiB, it may address memory as a buffer."""
        return self.nbytes


def start(folder: Path) -> None:
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")  # Triton asks when it compiles
    os.environ["TRITON_DUMP_PTXAS_LOG"] = "1"  # which has registers, spills and the stack


def answer(job: dict, folder: Path, tell: Callable[[str], None]) -> dict:
    """The compiled kernel; nothing for a job that fails, whose reasons are on standard error."""
    try:
        return work_on(job, folder)
    except Exception:  # whatever it is, the parent reports it
        traceback.print_exc()
        sys.stderr.flush()
        return {}
    finally:
        shutil.rmtree(folder / "cache", ignore_errors=True)


def work_on(job: dict, folder: Path) -> dict:
    source = folder / "program.py"
    source.write_text(job["program"], encoding="utf-8")
    names = {"__name__": source.stem}
    exec(compile(job["program"], source, "exec"), names)  # not imported: each job has its own
    kernel = names[job["kernel"]]
    while not isinstance(kernel, JITFunction):  # a tuner or a heuristic, whose values are given
        kernel = kernel.fn
    gpu = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget(*job["target"]),
    )
    driver.set_active(gpu)  # or Triton would look for one that is here
    known = {"Memory": Memory, "TensorDescriptor": TensorDescriptor, "tl": tl}
    with contextlib.redirect_stdout(io.StringIO()) as log:
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


def report_of_ptxas(log: str) -> dict[str, int]:
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) \D+ (\d+) bytes spill loads", log).groups()
    )
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    return {"registers": registers, "spilled": stores + loads, "stack": stack}
