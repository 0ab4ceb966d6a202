"""Compile a kernel for a named GPU, without a GPU, with Triton and the assembler.

A child process compiles, because in a process whose Triton interpreter is on, the interpreter has
replaced the compiler. The child gets the kernel's source and a call, both as Python. For a tensor,
the call has what the JIT looks at: dtype, alignment, size. The child stays until this process ends,
because it takes longer to start than to compile.

If Triton has no compiler, listings of the notebooks' kernels are replayed (`listings.py`).
"""

import base64
import os
import re
import shutil
import subprocess
import tempfile
import types
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from rope_kernels.paths import compiler_is_installed

from ..child import Ended, Worker
from ..shipment import CannotPassOn, Shipment, kind_of
from . import listings
from .assembly import needs_of_amd, widths_of
from .launch_limits import NotLaunched, check_shared_memory

SECONDS = 60.0  # the most that a kernel may take to compile
HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

"""


class Refused(RuntimeError):
    """Triton's compiler refuses a kernel; the message is the compiler's.

    Attributes:
        kernel: its name.
        sentence: why.
        line: the kernel's line with the error; '' if it isn't known.
        passes_over: whether a tuner takes another configuration instead.
    """

    def __init__(
        self, message: str, kernel: str, sentence: str, line: str = "", passes_over: bool = False
    ) -> None:
        super().__init__(message)
        self.kernel, self.sentence, self.line = kernel, sentence, line
        self.passes_over = passes_over


class NotPassedOn(TypeError):
    """The compiler's process can't be given something that a kernel uses or a launch passes."""


class DidNotFinish(RuntimeError):
    """It isn't known whether a kernel compiles, as after a time limit or on a full disk."""


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
        NotPassedOn: a TypeError; the child cannot be given something that the kernel uses.
        ValueError: `gpu` is not the name of a GPU.
        Refused, DidNotFinish: RuntimeErrors; the message of `Refused` is the compiler's.
        NoCompiler: Triton has none here, and no listing of this kernel is stored.
    """
    job = job_of(gpu, kernel, *arguments, num_warps=num_warps, **constants)
    name, program = job["kernel"], job["program"]
    if not compiler_is_installed():
        return Compiled(name, gpu, num_warps, program, binary=b"", **listings.replayed(job))
    fields = compiled_by_the_child(job)
    compiled = Compiled(name, gpu, num_warps, program, **fields)
    if listings.KEEP in os.environ and "ptx" in compiled.stages:
        listings.keep(job, {x: y for x, y in fields.items() if x != "binary"}, compiled.sass)
    return compiled


def job_of(gpu: str, kernel, *arguments, num_warps: int = 4, **constants) -> dict:
    """The job of `compile_for` for the compiler's process; with 'check': True, it only checks.

    Everything is text except 'target'. Raises as `compile_for`.
    """
    name = kernel.fn.__name__
    # `enable_fp_fusion` as in `rope_kernels/launch.py`: Triton 3.10 changes the default.
    options = {"enable_fp_fusion": True, "num_warps": num_warps} | constants
    call = [_written(argument) for argument in arguments]
    call += [f"{name}={_written(value)}" for name, value in options.items()]
    job = {"target": target_of(gpu), "program": _program(kernel), "kernel": name}
    return job | {"call": ", ".join(call)}


def compiled_by_the_child(job: dict) -> dict:
    """The fields of a `Compiled` that the compiler decides, from its stages on.

    For a check, only 'shared': it ends before PTX, because Triton refuses kernels before that.

    Raises:
        Refused, DidNotFinish: RuntimeErrors; why the compiler refused, or why it didn't finish.
        NotPassedOn: a TypeError; the kernel's source can't be run there.
    """
    backend, arch, _ = job["target"]
    gpu = f"sm_{arch}" if backend == "cuda" else arch
    head = f"{job['kernel']} does not compile for {gpu}:\n"
    # by its path: as a module it would import `rope_lab`, which picks an engine
    worker = Worker.kept(str(Path(__file__).with_name("compile_process.py")), None)
    try:
        result, reason = worker.ask(job, SECONDS), worker.words
    except Ended as ended:
        if ended.late:
            words = f"the compiler did not come to an end within {SECONDS:.0f} s"
            raise DidNotFinish(words) from None
        reason = ended.words or f"the compiler ended with {ended.code}"
        if ended.code == -9:  # SIGKILL, which Windows doesn't have
            words = "the compiler was killed, as where memory is short"
            raise DidNotFinish(words) from None
        result = {"refused": (_last_line(reason), "")}
    if "machine" in result:
        raise DidNotFinish(f"the compiler could not work: {result['machine']}")
    if not result:  # the error is in the program around the kernel, or in an argument's stand-in
        raise NotPassedOn(f"{head}{reason}")
    if "refused" in result:
        sentence, line = result["refused"]
        passes_over = result.get("passes_over", False)
        if "PassManager" in sentence:  # its reason is only on standard error
            sentence = _last_line(reason)
        raise Refused(f"{head}{reason}", job["kernel"], sentence, line, passes_over)
    if gpu in SM_OF:  # Triton notices it when it loads the kernel
        try:
            check_shared_memory(result["shared"], SM_OF[gpu].shared - SM_OF[gpu].reserved)
        except NotLaunched as error:
            raise Refused(f"{head}{error}", job["kernel"], str(error), passes_over=True) from None
    if "check" in job:
        return result
    result["binary"] = base64.b64decode(result["binary"])
    if "amdgcn" in result["stages"]:
        result |= needs_of_amd(result["stages"]["amdgcn"])
    return result


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


class _Kernels(Shipment):
    """Kernels and their parts, for a child that has Triton and no torch."""

    def source(self, name: str, value: object) -> str:
        if isinstance(value, types.ModuleType) and name in ("triton", "tl", "libdevice"):
            return ""  # in the header
        return super().source(name, value)

    def can_be_imported(self, module: str) -> bool:
        return module.startswith("triton.")


def _program(kernel) -> str:
    shipment = _Kernels()
    try:
        shipment.add(kernel.fn.__name__, kernel)
    except CannotPassOn as refused:
        accepted = "accepted: kernels, modules, constexprs"
        raise NotPassedOn(
            f"{kernel.fn.__name__} uses {refused.name}, which is {refused.what}; {accepted}"
        ) from None
    return HEADER + shipment.program


def _written(argument) -> str:
    """An argument as Python source for the child; for a tensor, what the JIT looks at."""
    kind = type(argument).__name__
    if isinstance(argument, torch.Tensor):
        # a tensor without memory, on 'meta' or a fake one, has address 0 whatever its offset is
        memory = 0 if isinstance(argument, FakeTensor) else argument.data_ptr()
        begin = memory or argument.storage_offset() * argument.element_size()
        nbytes = argument.untyped_storage().nbytes()
        return f"Memory({str(argument.dtype)!r}, {begin % 16 == 0}, {nbytes})"
    if kind == "TensorDescriptor":
        sizes = ([*map(int, x)] for x in (argument.shape, argument.strides, argument.block_shape))
        listed = ", ".join(map(str, sizes))
        return f"TensorDescriptor({_written(argument.base)}, {listed}, {argument.padding!r})"
    if isinstance(argument, tuple | list):
        items = "".join(f"{_written(item)}, " for item in argument)
        names = getattr(argument, "_fields", None)
        return f"namedtuple({kind!r}, {names})({items})" if names else f"({items})"
    if is_dataclass(argument):
        named = {field.name: getattr(argument, field.name) for field in fields(argument)}
        values = [f"{name}={_written(value)}" for name, value in named.items()]
        return f"frozen({kind!r}, {', '.join(values)})"
    if kind == "constexpr":
        return f"tl.constexpr({_written(argument.value)})"
    if kind == "dtype" and not isinstance(argument, torch.dtype):
        return f"tl.dtype({argument.name!r})"
    if isinstance(argument, float):
        return f"float('{argument}')"  # infinity, too
    if not isinstance(argument, int | str | None):
        raise NotPassedOn(
            f"an argument is {kind_of(argument)}; accepted: tensors, numbers, strings, None, "
            "dtypes of triton.language, tuples and dataclasses of them"
        )
    return repr(argument)


def _last_line(reason: str) -> str:
    """The last line with an error; without its place in the source."""
    lines = reason.strip().splitlines()
    found = [line.strip() for line in lines if "error" in line.lower()]
    told = (found or lines)[-1].strip()
    told = f"{told} {lines[-1].strip()}" if told.endswith(":") and told != lines[-1] else told
    return told.rpartition("error: ")[2]


def _up_to_multiple(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _in_words(widths: dict[int, int]) -> str:
    return ", ".join(f"{count} of {width} bytes" for width, count in widths.items()) or "none"
