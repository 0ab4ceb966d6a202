"""Compile a kernel for a named GPU, with no GPU: what Triton and ptxas make of it.

The work is done in a child process: where Triton's interpreter is on, it has taken the compiler's
place. The child gets the kernel's source and what the JIT would look at in the arguments of a call:
dtypes, alignment of pointers, integers divisible by 16 or equal to 1.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel: the text of each stage, and what ptxas reports."""

    gpu: str
    stages: dict[str, str] = field(repr=False)  # ttir, ttgir, llir, ptx, sass
    registers: int  # a thread
    spilled: int  # bytes a thread stores and loads again, for want of registers
    stack: int  # bytes a thread
    shared: int  # bytes a program
    num_warps: int

    @property
    def loads(self) -> dict[int, int]:
        """Loads from global memory in the PTX: bytes a thread -> number of instructions."""
        return _widths("ld", self.stages["ptx"])

    @property
    def stores(self) -> dict[int, int]:
        """Stores to global memory, alike."""
        return _widths("st", self.stages["ptx"])


def compile_for(gpu: str, kernel, *arguments, num_warps: int = 4, **constants) -> Compiled:
    """Compile `kernel` as a launch with these arguments would.

    Args:
        gpu: compute capability, as 'sm_90'.
        kernel: a `@triton.jit` function, from a module or from a notebook's cell.
        arguments: as in a launch: tensors (on any device), integers, floats, None, tuples of them.
        num_warps: as in a launch.
        constants: the kernel's constexpr arguments.

    Raises:
        RuntimeError: the compiler refused; the message is its own.
    """
    job = {
        "capability": int(gpu.removeprefix("sm_")),
        "sources": _sources(kernel),
        "kernel": kernel.fn.__name__,
        "arguments": [_describe(argument) for argument in arguments],
        "constants": constants,
        "num_warps": num_warps,
    }
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as folder:
        environment |= {"TRITON_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.run(
            # by its path: as a module it would import `rope_kernels.lab`, which picks an engine
            [sys.executable, Path(__file__).with_name("compile_child.py"), folder],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            env=environment,
        )
        result = Path(folder, "result.json")
        if not result.exists():
            raise RuntimeError(f"{job['kernel']} does not compile for {gpu}:\n{child.stderr}")
        return Compiled(gpu=gpu, num_warps=num_warps, **json.loads(result.read_text()))


def _sources(kernel) -> list[str]:
    """Source of the kernel, after that of every jit function and number that it uses."""
    sources = {}

    def visit(function) -> None:
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if hasattr(value, "fn") and name not in sources:
                visit(value.fn)
            elif isinstance(value, int | float):
                sources[name] = f"{name} = tl.constexpr({value!r})\n"
        sources[function.__name__] = inspect.getsource(function)

    visit(kernel.fn)
    return list(sources.values())


def _describe(argument):
    """What the JIT looks at in an argument, in terms of JSON."""
    if isinstance(argument, torch.Tensor):
        aligned = argument.data_ptr() % 16 == 0
        return {"dtype": str(argument.dtype).removeprefix("torch."), "aligned": aligned}
    if isinstance(argument, tuple | list):
        return [_describe(item) for item in argument]
    return argument


def _widths(instruction: str, ptx: str) -> dict[int, int]:
    # `.nc` are the tables of the sine's slow branch, which no line of the kernel asks for
    found = re.findall(rf"\b{instruction}\.global(?!\.nc)\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", ptx)
    widths = Counter(int(vector or 1) * int(bits) // 8 for vector, bits in found)
    return dict(sorted(widths.items()))
