"""The launch that a reader's function makes, caught before anything runs."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature

import torch
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from ...compiler.compile import Compiled, compile_for
from ...rungs import SHAPE
from ..inspect.tuners import one_configuration

GPU = "sm_90"  # an H100 or H200
_DEFAULT_WARPS = 4  # Triton's


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and its arguments."""

    kernel: object
    programs: int
    arguments: tuple
    options: dict  # by keyword: constants, num_warps, ...

    @property
    def num_warps(self) -> int:
        return self.options.get("num_warps", _DEFAULT_WARPS)

    def compiled(self, gpu: str = GPU) -> Compiled:
        """What it would run on a GPU, by default an H200; raises as `compile_for`."""
        return compile_for(gpu, self.kernel, *self.arguments, **self.options)


def launches_of(call: Callable[[], object]) -> list[Launch]:
    """The launches that `call()` makes, none of which is executed."""
    with _caught() as launches:
        call()
    return launches


def rotation(
    candidate: Callable, shape: tuple[int, ...] = SHAPE, device: str = "meta"
) -> Callable[[], object]:
    """The call `candidate(t, freqs)` for t of a shape (s, b, h, d), in bf16.

    Args:
        candidate: a function that rotates.
        shape: of t; freqs are fp32 angles for s positions.
        device: of both; on 'meta' they have no memory.
    """
    s, _, _, d = shape
    t = torch.empty(shape, dtype=torch.bfloat16, device=device)
    return partial(candidate, t, torch.empty((s, 1, 1, d), dtype=torch.float32, device=device))


@contextmanager
def _caught():
    """Kernels note their launches, of a tuner with its first configuration, and do not run."""
    found = []

    def note(kernel, /, *arguments, grid, warmup, **options):
        if warmup:
            return
        if callable(grid):
            given = dict(zip(kernel.arg_names, arguments, strict=False)) | options
            parameters = signature(kernel.fn).parameters.values()
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            grid = grid(defaults | given)
        programs = 1
        for size in grid if isinstance(grid, tuple | list) else (grid,):
            programs *= int(size)
        found.append(Launch(kernel, programs, arguments, options))

    kinds = (InterpretedFunction, JITFunction)
    originals = [kind.run for kind in kinds]
    for kind in kinds:
        kind.run = note
    try:
        with one_configuration(0):
            yield found
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.run = original
