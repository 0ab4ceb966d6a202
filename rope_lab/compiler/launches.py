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

from ..interpreter.tuners import words_of
from .compile import Compiled, compile_for
from .launch_limits import NotLaunched, check_launch

_DEFAULT_WARPS = 4  # Triton's


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and its arguments, as they were passed to Triton."""

    kernel: object  # a `@triton.jit` function
    grid: tuple[int, ...] | Callable  # `launches_of` replaces a function by what it returns
    arguments: tuple  # by position
    options: dict[str, object]  # the compiler's, and arguments by name
    gpu: str = "sm_90"  # by default an H100's or H200's architecture
    configuration: str = ""  # the one of `@triton.autotune`; '' if there is no choice
    triton_runs: Callable | None = field(default=None, repr=False, compare=False)  # a kernel

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__

    @property
    def sizes(self) -> tuple[int, ...]:
        """The grid's numbers. A function that makes a grid gets the kernel's arguments by name."""
        grid = self.grid
        if callable(grid):
            parameters = signature(self.kernel.fn).parameters.values()
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            grid = grid(defaults | self.named)
        return tuple(grid) if isinstance(grid, tuple | list) else (grid,)

    @property
    def programs(self) -> int:
        return math.prod(self.sizes)

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
    """In this context, every launch becomes `launcher(launch)`, which may run it.

    A launch that a GPU refuses, as for its grid, raises `NotLaunched`.
    """
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    def instead_of(triton_runs: Callable) -> Callable:
        def run(kernel, /, *arguments, grid, warmup=False, **options):
            if warmup:
                return triton_runs(kernel, *arguments, grid=grid, warmup=True, **options)
            launch = Launch(kernel, grid, arguments, options, gpu, triton_runs=triton_runs)
            check_launch(launch.sizes, options)
            return launcher(launch)

        return run

    with ExitStack() as stack:
        for kind in (InterpretedFunction, JITFunction):
            if not hasattr(kind, "run"):  # Triton 3.5 interprets by the kernel's own
                continue
            stack.enter_context(patch.object(kind, "run", instead_of(kind.run)))
        yield


def launches_of(
    call: Callable[[], object], *, in_every_configuration: bool = False
) -> list[Launch]:
    """The launches that `call()` makes; none runs.

    A tuner uses its first configuration that a GPU can start, or each of them, one by one.
    """
    from triton.runtime.autotuner import Autotuner

    found: list[Launch] = []

    def without_timing(tuner, *arguments, **options):
        """As Triton's `run`: it prunes, and calls hooks that change arguments."""
        tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
        configs = tuner.prune_configs(options) if len(tuner.configs) > 1 else tuner.configs
        begin = len(found)
        for config in configs:
            values = config.all_kwargs()
            if config.pre_hook is not None:
                config.pre_hook(tuner.nargs | options | values)
            own = len(found)
            try:
                tuner.fn.run(*arguments, **options, **values)
            except NotLaunched as error:
                passes_over_all = config is configs[-1] and len(found) == begin
                if passes_over_all or not error.passes_over:
                    raise
                continue
            words = words_of(tuner, config)
            found[own:] = [replace(launch, configuration=words) for launch in found[own:]]
            if not in_every_configuration:
                break

    def note(launch: Launch) -> None:
        found.append(replace(launch, grid=tuple(map(int, launch.sizes))))

    with launched_by(note), patch.object(Autotuner, "run", without_timing):
        call()
    return found
