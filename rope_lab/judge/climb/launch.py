"""The launch that a reader's function makes, caught before anything runs."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from inspect import signature
from unittest.mock import patch

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from ...compiler.compile import Compiled, compile_for
from ...rungs import SHAPE

GPU = "sm_90"  # an H100 or H200
_DEFAULT_WARPS = 4  # Triton's


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and its arguments."""

    kernel: object
    grid: tuple[int, ...]
    arguments: tuple
    options: dict  # by keyword: constants, num_warps, ...

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def num_warps(self) -> int:
        return self.options.get("num_warps", _DEFAULT_WARPS)

    def compiled(self, gpu: str = GPU) -> Compiled:
        """What it would run on a GPU, by default an H200; raises as `compile_for`."""
        return compile_for(gpu, self.kernel, *self.arguments, **self.options)


def rotation(candidate: Callable, out: str = "") -> Callable[[], object]:
    """The call `candidate(t, freqs)` at the headline shape, in bf16 and without memory.

    `out`: the keyword that gets t itself; '' for none.
    """
    s, _, _, d = SHAPE
    t = torch.empty(SHAPE, dtype=torch.bfloat16, device="meta")
    freqs = torch.empty((s, 1, 1, d), dtype=torch.float32, device="meta")
    return partial(candidate, t, freqs, **({out: t} if out else {}))


def launches_of(call: Callable[[], object]) -> list[Launch]:
    """The launches that `call()` makes, of a tuner with its first configuration; none runs."""
    found = []

    def note(kernel, /, *arguments, grid, warmup, **options):
        if warmup:
            return
        if callable(grid):
            given = dict(zip(kernel.arg_names, arguments, strict=False)) | options
            parameters = signature(kernel.fn).parameters.values()
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            grid = grid(defaults | given)
        sizes = grid if isinstance(grid, tuple | list) else (grid,)
        found.append(Launch(kernel, tuple(map(int, sizes)), arguments, options))

    def take_the_first(tuner, *arguments, **options):
        tuner.fn.run(*arguments, **options, **tuner.configs[0].all_kwargs())

    kinds = {InterpretedFunction: note, JITFunction: note, Autotuner: take_the_first}
    with ExitStack() as stack:
        for kind, run in kinds.items():
            stack.enter_context(patch.object(kind, "run", run))
        call()
    return found
