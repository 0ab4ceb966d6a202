"""Compile a kernel for a named GPU, with no GPU: what Triton and the assembler make of it.

The work is done in a child process: where Triton's interpreter is on, it has taken the compiler's
place. The child gets the kernel's source and what the JIT would look at in the arguments of a call:
dtypes, alignment of pointers, integers divisible by 16 or equal to 1. It stays until this process
ends, for it takes longer to start than to compile.
"""

import base64
import shutil
import subprocess
import tempfile
import types
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import torch

from rope_kernels.launch import kernel_of

from ..child import Ended, Worker
from ..shipment import CannotPassOn, Shipment, kind_of
from .assembly import needs_of_amd, widths_of
from .plans import Plan, Tensors
from .targets import target_of

SECONDS = 60.0  # that a kernel may take to compile
HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

"""


def nvdisasm() -> str:
    """Triton's disassembler, or the CUDA toolkit's: not every build of Triton comes with one."""
    tool = Path(find_spec("triton").origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    found = str(tool) if tool.exists() else shutil.which("nvdisasm")
    if found is None:
        raise FileNotFoundError(f"no nvdisasm: not {tool}, nor on PATH, as with the CUDA toolkit")
    return found


@dataclass(frozen=True)
class SM:
    """What the programs on one streaming multiprocessor share, and how it is dealt out."""

    warps: int  # at a time, at most
    programs: int  # at a time, at most
    shared: int  # bytes
    registers: int = 65_536
    parts: int = 4  # a warp lives in one of them, with a part of the registers
    register_unit: int = 256  # a warp gets multiples of so many registers
    shared_unit: int = 128  # a program gets multiples of so many bytes of shared memory,
    shared_reserved: int = 1024  # and so many bytes besides


# CUDA C++ Programming Guide, technical specifications by compute capability
SM_OF = {
    "sm_80": SM(warps=64, programs=32, shared=164 * 1024),
    "sm_86": SM(warps=48, programs=16, shared=100 * 1024),
    "sm_89": SM(warps=48, programs=24, shared=100 * 1024),
    "sm_90": SM(warps=64, programs=32, shared=228 * 1024),
    "sm_100": SM(warps=64, programs=32, shared=228 * 1024),
    "sm_120": SM(warps=48, programs=24, shared=100 * 1024),
}


@dataclass(frozen=True, repr=False)
class Compiled:
    """A compiled kernel: the text of each stage, and what ptxas or AMD's assembly reports.

    Shown in a notebook it is a short table. `stages.py` sets the text of a stage beside the
    kernel's lines.
    """

    kernel: str
    gpu: str
    num_warps: int
    program: str  # what was compiled; the stages refer to its lines
    stages: dict[str, str]  # ttir, ttgir, llir; ptx or amdgcn
    binary: bytes  # cubin or hsaco
    registers: int  # a thread
    spilled: int  # for want of registers: bytes a thread stores and loads; AMD: 4 a register
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
        tool = nvdisasm()
        with tempfile.TemporaryDirectory() as folder:
            cubin = Path(folder, "kernel.cubin")
            cubin.write_bytes(self.binary)
            command = [tool, "--print-line-info", "--print-code", cubin]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def programs_at_a_time(self) -> int:
        """Programs that one streaming multiprocessor (SM) can hold.

        Raises:
            KeyError: a GPU that is not in `SM_OF`.
        """
        sm = SM_OF[self.gpu]
        registers_a_warp = _up_to_multiple(32 * self.registers, sm.register_unit)
        warps = min(sm.warps, sm.parts * (sm.registers // sm.parts // registers_a_warp))
        shared = _up_to_multiple(self.shared + sm.shared_reserved, sm.shared_unit)
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
            None, tuples of them.
        num_warps: as in a launch.
        constants: the kernel's constexpr arguments, and options of the compiler, as
            `enable_fp_fusion=False`.

    Raises:
        TypeError: the kernel uses something that the child cannot be given.
        ValueError: no name of a GPU.
        RuntimeError: the compiler refused; the message is its own.
    """
    name, target = kernel.fn.__name__, target_of(gpu)
    program = _program(kernel)
    job = {
        "target": [target.backend, target.arch, target.warp_size],
        "program": program,
        "kernel": name,
        "arguments": [_describe(argument) for argument in arguments],
        "constants": {name: _describe(value) for name, value in constants.items()},
        "num_warps": num_warps,
    }
    try:
        result = _compiled(job)
    except RuntimeError as refused:
        raise RuntimeError(f"{name} does not compile for {gpu}:\n{refused}") from None
    binary = base64.b64decode(result.pop("binary"))
    if target.backend == "hip":
        result |= needs_of_amd(result["stages"]["amdgcn"])
    return Compiled(name, gpu, num_warps, program, binary=binary, **result)


def compile_plan(gpu: str, plan: Plan, tensors: Tensors) -> Compiled:
    """Compile what a plan would launch; raises as `compile_for`.

    Args:
        gpu: 'sm_90', 'gfx942', ...
        plan: from `plan_of`; an experiment may change it.
        tensors: of that plan; on any device.
    """
    kernel = kernel_of(plan.kernel)
    own = kernel.arg_names[len(tensors) :]
    arguments = {name: plan.arguments.get(name) for name in own}
    return compile_for(gpu, kernel, *tensors, **arguments, **plan.options)


def _compiled(job: dict) -> dict:
    """The answer of the process that compiles.

    Raises:
        RuntimeError: there is none; the message says why.
    """
    # by its path: as a module it would import `rope_lab`, which picks an engine
    worker = Worker.kept(str(Path(__file__).with_name("compile_process.py")), None)
    try:
        if answer := worker.ask(job, SECONDS):
            return answer
        raise RuntimeError(worker.words)
    except Ended as ended:
        reason = ended.words or f"the compiler ended with {ended.code}"
        if ended.late:
            reason = f"the compiler did not come to an end within {SECONDS:.0f} s"
        raise RuntimeError(reason) from None


class _Kernels(Shipment):
    """Kernels and their parts, for a child that has Triton and no torch."""

    def source(self, name: str, value: object) -> str:
        if isinstance(value, types.ModuleType) and name in ("triton", "tl", "libdevice"):
            return ""  # in the header
        text = super().source(name, value)
        if type(value) in (int, float, bool):  # the only numbers that a kernel may use
            text += f"\n{name} = tl.constexpr({name})"
        return text

    def can_be_imported(self, module: str) -> bool:
        return module.startswith("triton.")


def _program(kernel) -> str:
    shipment = _Kernels()
    try:
        shipment.add(kernel.fn.__name__, kernel)
    except CannotPassOn as refused:
        accepted = "accepted: kernels, modules, numbers, constexprs"
        raise TypeError(
            f"{kernel.fn.__name__} uses {refused.name}, which is {refused.what}; {accepted}"
        ) from None
    return HEADER + shipment.program


def _describe(argument):
    """What the JIT looks at in an argument, in terms of JSON."""
    if isinstance(argument, torch.Tensor):
        # a tensor without memory, on 'meta', is at 0 wherever it begins
        begin = argument.data_ptr() or argument.storage_offset() * argument.element_size()
        about = {"dtype": str(argument.dtype), "aligned": begin % 16 == 0}
        return about | {"nbytes": argument.untyped_storage().nbytes()}
    if type(argument).__name__ == "TensorDescriptor":
        fields = ("shape", "strides", "block_shape")
        sizes = {name: [int(size) for size in getattr(argument, name)] for name in fields}
        return {"base": _describe(argument.base), **sizes, "padding": argument.padding}
    if isinstance(argument, tuple | list):
        return [_describe(item) for item in argument]
    if type(argument).__name__ == "constexpr":
        return {"constexpr": _describe(argument.value)}
    if type(argument).__name__ == "dtype":
        return {"triton_dtype": argument.name}
    if not isinstance(argument, int | float | str | None):
        raise TypeError(
            f"an argument is {kind_of(argument)}; accepted: tensors, numbers, strings, None, "
            "dtypes of triton.language, tuples of them"
        )
    return argument


def _up_to_multiple(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _in_words(widths: dict[int, int]) -> str:
    return ", ".join(f"{count} of {width} bytes" for width, count in widths.items()) or "none"
