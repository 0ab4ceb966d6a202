"""A kernel's own lines, run in plain PyTorch, with every byte and every sin and cos counted.

A Triton kernel's body is ordinary Python that calls functions of `tl`. `run_lines` runs it, program
after program, with a `Ledger` in place of `tl`. Notebook 05 counts with it, and its detour shows
how it works. Importing this loads Triton.
"""

from collections.abc import Iterable
from types import FunctionType, SimpleNamespace

import torch
import triton
import triton.language as tl

from ..shipment import globals_of

_DTYPES = {
    tl.float16: torch.float16,
    tl.bfloat16: torch.bfloat16,
    tl.float32: torch.float32,
    tl.float64: torch.float64,
    tl.int64: torch.int64,
}


class Block(torch.Tensor):
    """A tensor that is converted as Triton's blocks are: `x.to(tl.float32)`."""

    def to(self, dtype):
        return self.type(_DTYPES.get(dtype, dtype))


class Pointer:
    """Places in a tensor's memory, counted in elements. Adding a block gives a block of them."""

    def __init__(self, memory, place=0):
        self.memory, self.place = memory, place
        stored = next(name for name, dtype in _DTYPES.items() if dtype == memory.dtype)
        self.dtype = SimpleNamespace(element_ty=stored)  # where Triton's pointers have it

    def __add__(self, elements):
        return Pointer(self.memory, self.place + elements)


class Ledger:
    """Stands in for `tl`: it loads, stores, takes sin and cos, and counts.

    A masked lane touches no memory and counts no byte.

    Attributes:
        bytes_read, bytes_written, bytes: requested by the programs so far; `bytes` is their sum.
        evaluations: of sin and cos, both together.
        program: the number of the program that runs.
    """

    float32, float64, int64 = tl.float32, tl.float64, tl.int64
    where, cdiv = staticmethod(torch.where), staticmethod(triton.cdiv)

    def __init__(self):
        self.program = self.bytes_read = self.bytes_written = self.evaluations = 0

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    def program_id(self, axis):
        return torch.tensor(self.program).as_subclass(Block)

    def arange(self, start, end):
        return torch.arange(start, end).as_subclass(Block)

    def full(self, shape, value, dtype):
        return torch.full(shape, value, dtype=_DTYPES[dtype]).as_subclass(Block)

    def multiple_of(self, pointer, divisors):
        return pointer  # a promise to the compiler, which changes no result

    def load(self, pointer, mask, other=0.0):
        self.bytes_read += int(mask.sum()) * pointer.memory.element_size()
        safe_place = torch.where(mask, pointer.place, 0)
        return torch.where(mask, pointer.memory[safe_place], other)

    def store(self, pointer, value, mask):
        self.bytes_written += int(mask.sum()) * pointer.memory.element_size()
        pointer.memory[pointer.place[mask]] = value[mask].type(pointer.memory.dtype)

    def fma(self, x, y, z):
        return x * y + z

    def cos(self, angle):
        self.evaluations += angle.numel()
        return angle.cos()

    def sin(self, angle):
        self.evaluations += angle.numel()
        return angle.sin()


def lines_of(kernel, ledger):
    """A kernel's own lines as a Python function, in which `tl` is the ledger."""
    names = kernel.fn.__globals__ | {"tl": ledger}
    for name, value in globals_of(kernel.fn).items():
        if hasattr(value, "fn"):  # a part that this kernel calls
            names[name] = lines_of(value, ledger)
    return FunctionType(kernel.fn.__code__, names, argdefs=kernel.fn.__defaults__)


def run_lines(kernel, programs: int | Iterable[int], *arguments, **sizes) -> Ledger:
    """Run a kernel's own lines in PyTorch, program after program, and count.

    Args:
        kernel: a `@triton.jit` function, compiled or interpreted.
        programs: how many, or their numbers in the order in which they run.
        arguments: the kernel's; tensors are on the CPU and contiguous.
        sizes: its constexprs, all powers of two that a block needs.
    """
    ledger = Ledger()
    lines = lines_of(kernel, ledger)
    arguments = [Pointer(a.view(-1)) if isinstance(a, torch.Tensor) else a for a in arguments]
    for ledger.program in range(programs) if isinstance(programs, int) else programs:
        lines(*arguments, **sizes)
    return ledger
