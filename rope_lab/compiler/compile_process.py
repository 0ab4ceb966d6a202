"""The child process of `compile.py`: `worker.py` calls it with jobs. It has Triton, no torch."""

import base64
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
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


@dataclass
class Memory:
    """A tensor as far as the JIT looks at it: a dtype's name, its address, and its memory's size.

    (torch itself would take longer to import than the kernel to compile.)
    """

    dtype: DType
    aligned: bool
    nbytes: int

    def data_ptr(self) -> int:
        return 16 if self.aligned else 1

    def ptr_range(self) -> int:
        """What AMD's backend asks: up to 2 GiB, it may address memory as a buffer."""
        return self.nbytes


def start(folder: Path) -> None:
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")  # Triton asks when it compiles


def answer(job: dict, folder: Path, tell: Callable[[dict], None]) -> dict:
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
    source.write_text(job["program"])
    names = {"__name__": source.stem}
    exec(compile(job["program"], source, "exec"), names)  # not imported: each job has its own
    kernel = names[job["kernel"]]
    while not isinstance(kernel, JITFunction):  # a tuner or a heuristic, whose values are given
        kernel = kernel.fn

    target = GPUTarget(*job["target"])
    compiled = compile_kernel(kernel, target, job)
    last, binary = ("ptx", "cubin") if target.backend == "cuda" else ("amdgcn", "hsaco")
    stages = {stage: str(compiled.asm[stage]) for stage in ("ttir", "ttgir", "llir", last)}
    answer = {
        "stages": stages,
        "binary": base64.b64encode(compiled.asm[binary]).decode(),
        "shared": compiled.metadata.shared,
    }
    if last == "ptx":
        fused = job["constants"].get("enable_fp_fusion", True)
        answer |= report_of_ptxas(stages["ptx"], fused, folder)
    return answer


def compile_kernel(kernel, target: GPUTarget, job: dict):
    """What a launch on such a GPU would compile."""
    gpu = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: target,
    )
    driver.set_active(gpu)  # or Triton would look for one that is here
    # `enable_fp_fusion` as `rope_kernels/launch.py` asks for it: Triton 3.10 changes the default.
    options = {"enable_fp_fusion": True, "num_warps": job["num_warps"]}
    options |= {name: as_argument(value) for name, value in job["constants"].items()}
    return kernel.warmup(*map(as_argument, job["arguments"]), grid=(1,), **options)


def as_argument(described):
    if isinstance(described, list):
        return tuple(map(as_argument, described))
    if not isinstance(described, dict):
        return described
    if "triton_dtype" in described:
        return tl.dtype(described["triton_dtype"])
    if "constexpr" in described:
        return tl.constexpr(as_argument(described["constexpr"]))
    if "base" in described:
        return TensorDescriptor(**described | {"base": as_argument(described["base"])})
    return Memory(**described | {"dtype": DType(described["dtype"])})


def ptxas_for(gpu: str) -> str:
    """Triton's choice among its own, or what TRITON_PTXAS_PATH names; Inductor sets that."""
    number = int(re.search(r"\d+", gpu)[0])
    takes_one = signature(get_ptxas).parameters  # not in Triton 3.5
    return (get_ptxas(number) if takes_one else get_ptxas()).path


def report_of_ptxas(ptx: str, fused: bool, folder: Path) -> dict[str, int]:
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    gpu = re.search(r"\.target (\w+)", ptx)[1]
    fusion = [] if fused else ["--fmad=false"]  # as Triton asks it
    command = [ptxas_for(gpu), "-v", *fusion, f"--gpu-name={gpu}", source, "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stderr
    if done.returncode:
        raise RuntimeError(
            f"ptxas refused what Triton made, with status {done.returncode}:\n{text}"
        )
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) \D+ (\d+) bytes spill loads", text).groups()
    )
    registers = int(re.search(r"Used (\d+) registers", text)[1])
    return {"registers": registers, "spilled": stores + loads, "stack": stack}
