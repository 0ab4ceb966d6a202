"""Compile a kernel for a named GPU, without a GPU, with Triton and the assembler.

It is compiled here, as a launch with its tensors on that GPU would be. If Triton has no compiler,
listings of the notebooks' kernels are replayed (`listings.py`).
"""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rope_kernels.paths import compiler_is_installed, interpreter_is_on, triton_is_installed

from . import listings
from .assembly import needs_of_amd, widths_of
from .launch_limits import NotLaunched, Refused, check_shared_memory


def nvdisasm() -> str:
    """Triton's disassembler, or the CUDA toolkit's: not every build of Triton includes one."""
    tool = Path(find_spec("triton").origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    found = str(tool) if tool.exists() else shutil.which("nvdisasm")
    if found is None:
        raise FileNotFoundError(f"no nvdisasm: not {tool}, nor on PATH, as with the CUDA toolkit")
    return found


class SM(NamedTuple):
    """What the programs on one streaming multiprocessor share."""

    warps: int  # at a time, at most
    programs: int  # at a time, at most
    shared: int  # bytes
    # shared memory is allocated to a program in multiples of this, plus the reserved bytes
    shared_unit: int = 128
    reserved: int = 1024


# CUDA C++ Programming Guide, technical specifications by compute capability
SM_OF = {
    "sm_75": SM(warps=32, programs=16, shared=64 * 1024, shared_unit=256, reserved=0),
    "sm_80": SM(warps=64, programs=32, shared=164 * 1024),
    "sm_86": SM(warps=48, programs=16, shared=100 * 1024),
    "sm_89": SM(warps=48, programs=24, shared=100 * 1024),
    "sm_90": SM(warps=64, programs=32, shared=228 * 1024),
    "sm_100": SM(warps=64, programs=32, shared=228 * 1024),
    "sm_120": SM(warps=48, programs=24, shared=100 * 1024),
}
# for all of them
_REGISTERS = 65_536 // 4  # of each of an SM's four parts; a warp lives in one part
_REGISTER_UNIT = 256  # a warp gets multiples of so many registers


@dataclass(frozen=True, repr=False)
class Compiled:
    """A compiled kernel: the text of each stage, and what ptxas or AMD's assembly reports.

    Printed, it is a short table. `stages.py` maps the text of a stage to the kernel's lines.
    """

    kernel: str
    gpu: str
    num_warps: int
    program: str  # what was compiled; the stages refer to its lines
    stages: dict[str, str]  # ttir, ttgir, llir; ptx or amdgcn. If stored: sass, but no llir
    binary: bytes  # cubin or hsaco; empty if the stages are stored
    registers: int  # a thread
    spilled: int  # register spills, in bytes a thread; AMD: 4 a register
    stack: int  # bytes a thread
    shared: int  # bytes a program
    file: str = ""  # what the stages call `program`

    @property
    def loads(self) -> dict[int, int]:
        """Loads from global memory: bytes a thread -> number of instructions."""
        return widths_of(self.stages, "load")

    @property
    def stores(self) -> dict[int, int]:
        """Stores to global memory, in the same form."""
        return widths_of(self.stages, "store")

    @cached_property
    def sass(self) -> str:
        """The instructions that an NVIDIA GPU executes, with their lines in `program`.

        Raises:
            FileNotFoundError: neither Triton nor the CUDA toolkit on PATH has nvdisasm.
        """
        if "sass" in self.stages:
            return self.stages["sass"]
        with tempfile.NamedTemporaryFile() as cubin:
            cubin.write(self.binary)
            cubin.flush()
            command = [nvdisasm(), "--print-line-info", "--print-code", cubin.name]
            said = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
            return said.stdout

    @property
    def programs_at_a_time(self) -> int:
        """Programs that one streaming multiprocessor (SM) can hold.

        Raises:
            KeyError: the GPU is not in `SM_OF`.
        """
        sm = SM_OF[self.gpu]
        registers_a_warp = _up_to_multiple(32 * self.registers, _REGISTER_UNIT)
        warps = min(sm.warps, 4 * (_REGISTERS // registers_a_warp))
        shared = max(1, _up_to_multiple(self.shared + sm.reserved, sm.shared_unit))
        return min(sm.programs, warps // self.num_warps, sm.shared // shared)

    @property
    def occupancy(self) -> float:
        """Share of the warps that one streaming multiprocessor (SM) could hold at best."""
        return self.programs_at_a_time * self.num_warps / SM_OF[self.gpu].warps

    def __repr__(self) -> str:
        plural = "" if self.num_warps == 1 else "s"
        rows = {
            "loads": _in_words(self.loads),
            "stores": _in_words(self.stores),
            "registers": f"{self.registers} a thread, {self.spilled} bytes spilled",
            "stack": f"{self.stack} bytes a thread",
            "shared": f"{self.shared} bytes a program",
        }
        if self.gpu in SM_OF:
            rows["occupancy"] = f"{self.programs_at_a_time} programs, {self.occupancy:.0%}"
        head = f"{self.kernel} for {self.gpu}, {self.num_warps} warp{plural}"
        return "\n".join([head, *(f"  {name:10}{text}" for name, text in rows.items())])


def compile_for(gpu: str, kernel, *arguments, num_warps: int = 4, **constants) -> Compiled:
    """Compile `kernel` as a launch with these arguments would.

    Args:
        gpu: 'sm_90', 'gfx942', ...
        kernel: a `@triton.jit` function, from a module or from a notebook's cell.
        arguments: as in a launch: tensors (on any device), their descriptors, integers, floats,
            None, tuples and dataclasses of them.
        num_warps: as in a launch.
        constants: the kernel's constexpr arguments, and options of the compiler, such as
            `enable_fp_fusion=False`.

    Raises:
        ValueError: `gpu` is not the name of a GPU.
        Refused: a RuntimeError with the compiler's message.
        OSError: there is no room on the disk.
        NoCompiler: Triton has none here, and no listing of this kernel is stored.
    """
    job = job_of(gpu, kernel, *arguments, num_warps=num_warps, **constants)
    if not compiles_here():
        return Compiled(
            job.name, gpu, num_warps, binary=b"", **listings.replayed(job.name, job.key)
        )
    made = {"program": job.program, "file": job.file} | job.done()
    code = Compiled(job.name, gpu, num_warps, **made)
    if listings.KEEP in os.environ and "ptx" in code.stages:
        kept = {field: x for field, x in made.items() if field != "binary"}
        listings.keep(job.name, job.key, kept, code.sass)
    return code


def compiles_here() -> bool:
    """Whether Triton has its compiler, and wasn't loaded for its interpreter."""
    return triton_is_installed() and compiler_is_installed() and not interpreter_is_on()


@dataclass(frozen=True)
class Job:
    """What is compiled, and for which GPU: a kernel, and arguments without their tensors."""

    kernel: object
    gpu: str
    arguments: tuple
    options: dict[str, object]

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__

    @property
    def file(self) -> str:
        """What the stages call it."""
        return Path(self.kernel.fn.__code__.co_filename).name

    @cached_property
    def program(self) -> str:
        from .compile_here import program_of

        return program_of(self.kernel)

    @property
    def key(self) -> str:
        """The same for jobs with the same result, wherever the kernel is in its file."""
        from .compile_here import sources_of

        named = zip(self.kernel.arg_names, self.arguments, strict=False)
        call = dict(named) | self.options
        seen = {name: _seen(x) for name, x in sorted(call.items())}
        return repr([target_of(self.gpu), seen, sources_of(self.kernel)])

    def done(self, check: bool = False) -> dict:
        """The fields of a `Compiled` that the compiler decides, from its stages on.

        For a check, only 'shared': it ends before LLVM, because Triton refuses kernels before that.

        Raises:
            Refused: a RuntimeError; why Triton refuses the kernel.
            OSError: there is no room on the disk.
        """
        from .compile_here import compiled

        call = self.arguments, self.options
        found = compiled(self.kernel, self.gpu, target_of(self.gpu), *call, check=check)
        if self.gpu in SM_OF:  # Triton notices it when it loads the kernel
            try:
                check_shared_memory(
                    found["shared"], SM_OF[self.gpu].shared - SM_OF[self.gpu].reserved
                )
            except NotLaunched as error:
                raise Refused(self.name, self.gpu, str(error), passes_over=True) from None
        if "amdgcn" in found.get("stages", ()):
            found |= needs_of_amd(found["stages"]["amdgcn"])
        return found


def job_of(gpu: str, kernel, *arguments, num_warps: int = 4, **constants) -> Job:
    """The job of `compile_for`. Raises as `compile_for`."""
    from .compile_here import kernel_in, seen_by_the_jit

    target_of(gpu)
    # `enable_fp_fusion` as in `rope_kernels/launch.py`: Triton 3.10 changes the default.
    options = {"enable_fp_fusion": True, "num_warps": num_warps} | constants
    return Job(
        kernel_in(kernel),
        gpu,
        tuple(map(seen_by_the_jit, arguments)),
        {name: seen_by_the_jit(x) for name, x in options.items()},
    )


def _seen(x: object) -> object:
    """What the compiler sees of an argument."""
    if hasattr(x, "data_ptr"):
        return str(x.dtype), x.data_ptr() % 16 == 0, x.nbytes
    if isinstance(x, tuple):
        return [type(x).__name__, *map(_seen, x)]
    if base := getattr(x, "base", None):  # a descriptor's
        return _seen(base), list(x.shape), list(x.strides), list(x.block_shape), x.padding
    if is_dataclass(x):
        return {field.name: _seen(getattr(x, field.name)) for field in fields(x)}
    return repr(x)


def target_of(gpu: str) -> tuple[str, int | str, int]:
    """The arguments of Triton's `GPUTarget`: backend, architecture, threads per warp.

    AMD's CDNA (gfx9) runs 64 threads per warp. Triton runs RDNA (gfx10 and later) with 32.

    Raises:
        ValueError: neither 'sm_' and a number, nor 'gfx' and a number.
    """
    if found := re.fullmatch(r"sm_(\d+)", gpu):
        return "cuda", int(found[1]), 32
    if found := re.fullmatch(r"gfx(\d+)[0-9a-f]{2}", gpu):
        return "hip", gpu, 64 if int(found[1]) == 9 else 32
    raise ValueError(f"gpu is {gpu!r}; accepted: names like 'sm_90' and 'gfx942'")


def _up_to_multiple(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _in_words(widths: dict[int, int]) -> str:
    return ", ".join(f"{count} of {width} bytes" for width, count in widths.items()) or "none"
