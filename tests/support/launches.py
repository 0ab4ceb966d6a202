"""What a call launches, by what Triton is handed: whatever the package's own names are.

`launches_of` asks for a GPU that need not be here. Tensors are on the CPU, and say that they are on
the GPU. No kernel runs, so results are never written, and sizes cost nothing.
"""

import os
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from unittest.mock import PropertyMock, patch

import torch
from torch.utils._pytree import tree_leaves

import rope_kernels
from rope_lab.compiler.compile import Compiled, compile_for


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, as Triton was handed it."""

    kernel: object  # a `@triton.jit` function
    grid: tuple[int, ...]
    arguments: tuple
    options: dict  # arguments by name, and options of the compiler
    gpu: str

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__

    @property
    def programs(self) -> int:
        (programs,) = self.grid
        return programs

    @property
    def threads(self) -> int:
        """Of a program."""
        return self.options["num_warps"] * (64 if self.gpu.startswith("gfx9") else 32)

    @property
    def tensors(self) -> list[torch.Tensor]:
        given = tree_leaves((self.arguments, self.options))
        return [x for x in given if isinstance(x, torch.Tensor)]

    def compiled(self) -> Compiled:
        return compile_for(self.gpu, self.kernel, *self.arguments, **self.options)


@contextmanager
def launched_by(launcher: Callable) -> Iterator[None]:
    """Every launch becomes `launcher(kernel, grid, arguments, options)`.

    On a GPU the package may launch what it remembers by other ways: `whole_way` ends that.
    """
    import triton

    def launch(kernel, grid):
        return lambda *arguments, **options: launcher(kernel, grid, arguments, options)

    with patch.object(triton.KernelInterface, "__getitem__", launch):
        yield


def in_order(order: Callable) -> Callable:
    """A launcher for the interpreter: of `n` programs, those of `order(range(n))` run, in turn."""

    def launch(kernel, grid, arguments, options):
        from triton.runtime.interpreter import interpreter_builder

        numbers = order(range(*grid))
        go_to, set_size = interpreter_builder.set_grid_idx, interpreter_builder.set_grid_dim
        with patch.multiple(
            interpreter_builder,
            set_grid_idx=lambda x, y, z: go_to(numbers[x], y, z),
            set_grid_dim=lambda *_: set_size(*grid, 1, 1),
        ):
            return kernel.run(*arguments, grid=(len(numbers),), warmup=False, **options)

    return launch


@contextmanager
def launches(gpu: str = "sm_90") -> Iterator[list[Launch]]:
    """Note every launch of calls that take their tensors to be on this GPU, and make none."""
    found = []
    load_kernels()
    yes, no = PropertyMock(return_value=True), PropertyMock(return_value=False)
    with (
        patch.dict(os.environ, {"TRITON_INTERPRET": "0"}),
        patch.multiple(torch.Tensor, is_cuda=yes, is_cpu=no),
        patch.object(torch.version, "hip", "7.2" if gpu.startswith("gfx") else None),
        patch.object(torch.cuda, "current_device", lambda: -1),  # where tensors on the CPU are
        launched_by(lambda *launch: found.append(Launch(*launch, gpu))),
    ):
        yield found


def launches_of(function: Callable, *arguments, gpu: str = "sm_90", **options) -> list[Launch]:
    """Every launch of a call, and of its backward where a tensor requires a gradient."""
    with launches(gpu) as found:
        outs = [out for out in tree_leaves(function(*arguments, **options)) if out.requires_grad]
        leaves = [x for x in tree_leaves(arguments) if getattr(x, "requires_grad", False)]
        if outs:
            torch.autograd.grad(outs, leaves, [torch.empty_like(out) for out in outs])
    return found


@cache
def load_kernels() -> None:
    """As the JIT or the interpreter has them in this process."""
    for module in pkgutil.walk_packages(rope_kernels.__path__, "rope_kernels."):
        if "kernel" in module.name.removeprefix("rope_kernels."):
            import_module(module.name)
