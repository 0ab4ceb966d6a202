"""Catch launches where they reach Triton: in its JIT or in its interpreter.

The package launches a repeated call directly with the compiled kernel, without Triton's JIT. Such
launches are not caught.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, is_dataclass, replace
from inspect import signature
from unittest.mock import patch

from torch import Tensor
from torch.utils._pytree import tree_leaves

from rope_kernels.modes import interpreter_is_on, triton_is_installed

from .compile import Compiled, compile_for

_DEFAULT_WARPS = 4  # Triton's


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and its arguments, as they were passed to Triton."""

    kernel: object  # a `@triton.jit` function
    grid: tuple[int, ...]
    arguments: tuple  # by position
    options: dict[str, object]  # the compiler's, and arguments by name
    gpu: str = "sm_90"  # by default an H100's or H200's architecture
    configuration: str = ""  # the one of `@triton.autotune`; '' if there is no choice
    triton_runs: Callable | None = field(default=None, repr=False, compare=False)  # a kernel

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def num_warps(self) -> int:
        return self.options.get("num_warps", _DEFAULT_WARPS)

    @property
    def threads(self) -> int:
        """Threads of a program."""
        return self.num_warps * (64 if self.gpu.startswith("gfx9") else 32)

    @property
    def named(self) -> dict[str, object]:
        """The kernel's arguments by their names, and all options."""
        return dict(zip(self.kernel.arg_names, self.arguments, strict=False)) | self.options

    @property
    def settings(self) -> dict[str, object]:
        """The kernel's arguments by their names, without tensors, and the compiler's options.

        Constants that are passed as one dataclass are listed one by one.
        """
        named = self.named
        for name in [name for name, x in named.items() if is_dataclass(x)]:
            named |= vars(named.pop(name))
        return {name: x for name, x in named.items() if not _has_tensors(x)}

    def compiled(self, gpu: str = "") -> Compiled:
        """The kernel compiled for a GPU, by default the launch's; raises as `compile_for`."""
        return compile_for(gpu or self.gpu, self.kernel, *self.arguments, **self.options)

    def run(self) -> object:
        """Launch it now; returns what Triton returns."""
        options = {"grid": self.grid, "warmup": False} | self.options
        return self.triton_runs(self.kernel, *self.arguments, **options)


def _has_tensors(x: object) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in tree_leaves(x))


@contextmanager
def launched_by(launcher: Callable[[Launch], object], gpu: str = "sm_90") -> Iterator[None]:
    """In this context, every launch becomes `launcher(launch)`, which may run it."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    def instead_of(triton_runs: Callable) -> Callable:
        def run(kernel, /, *arguments, grid, warmup=False, **options):
            if warmup:
                return triton_runs(kernel, *arguments, grid=grid, warmup=True, **options)
            return launcher(Launch(kernel, grid, arguments, options, gpu, triton_runs=triton_runs))

        return run

    with ExitStack() as stack:
        for kind in (InterpretedFunction, JITFunction):
            stack.enter_context(patch.object(kind, "run", instead_of(kind.run)))
        yield


def interprets() -> bool:
    """Whether launches are interpreted in this process."""
    return interpreter_is_on() and triton_is_installed()


def launches_of(call: Callable[[], object]) -> list[Launch]:
    """The launches that `call()` makes; none runs. A tuner uses its first configuration."""
    from triton.runtime.autotuner import Autotuner

    found: list[Launch] = []

    def note(launch: Launch) -> None:
        grid = launch.grid
        if callable(grid):
            parameters = signature(launch.kernel.fn).parameters.values()
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            grid = grid(defaults | launch.named)
        sizes = grid if isinstance(grid, tuple | list) else (grid,)
        found.append(replace(launch, grid=tuple(map(int, sizes))))

    def take_the_first(tuner, *arguments, **options):
        """As Triton's `run`, without timing: it prunes, and calls hooks that change arguments."""
        tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
        configs = tuner.prune_configs(options) if len(tuner.configs) > 1 else tuner.configs
        values = configs[0].all_kwargs()
        if configs[0].pre_hook is not None:
            configs[0].pre_hook(tuner.nargs | options | values)
        own = len(found)
        tuner.fn.run(*arguments, **options, **values)
        if len(configs) > 1:
            shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
            words = f"the first of {len(configs)}: {shown}"
            found[own:] = [replace(launch, configuration=words) for launch in found[own:]]

    with launched_by(note), patch.object(Autotuner, "run", take_the_first):
        call()
    return found
