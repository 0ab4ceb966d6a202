"""The instruments: what a reader's launch is, and what they show of its kernel.

A launch is caught before anything runs. Readings are counted in the interpreter, with a probe, and
in the machine code that the launch at the headline shape is compiled to.
"""

import ast
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from unittest.mock import patch

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from ...compiler.compile import Compiled, compile_for
from ...compiler.instructions import instruction_time, loads_before_first_branch, warp_instructions
from ...compiler.listings import NoCompiler
from ...rungs import SHAPE
from ..counts import Counted

GPU = "sm_90"  # an H100 or H200
_DEFAULT_WARPS = 4  # Triton's
_TMA_BYTES = 16  # a row of a box, at least


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and its arguments."""

    kernel: object
    grid: tuple[int, ...]
    arguments: tuple
    options: dict  # by keyword: constants, num_warps, ...
    configuration: str = ""  # which one of `@triton.autotune` it is; '' if there is no choice

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def named(self) -> dict[str, object]:
        """What the kernel gets, by the names of its arguments; and all options."""
        return dict(zip(self.kernel.arg_names, self.arguments, strict=False)) | self.options

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
        """As Triton's `run`, but for the time: it prunes, and calls what changes arguments."""
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

    kinds = {InterpretedFunction: note, JITFunction: note, Autotuner: take_the_first}
    with ExitStack() as stack:
        for kind, run in kinds.items():
            stack.enter_context(patch.object(kind, "run", run))
        call()
    return found


def readings_of(counted: Counted, launch: Launch) -> dict[str, float]:
    """A number for each instrument, for an H200.

    The first three are of the probe, the others of the headline shape. Those of machine code are
    missing where Triton has no compiler and doesn't know the kernel.

    Args:
        counted: with the probe.
        launch: at the headline shape; it is compiled, and raises as `compile_for`.
    """
    size = counted.elements * counted.element_bytes
    order = "".join(event.kind for event in counted.events)  # L a load, E an evaluation
    readings = {
        # in multiples of the bytes of t
        "bytes requested": (sum(counted.loaded.values()) + counted.stored) / size,
        "sin/cos evaluations": counted.evaluations / (counted.elements / 2),  # a pair
        "loads after a sine": order.partition("E")[2].count("L"),  # of the first program
        "programs": launch.programs,
    }
    try:
        return readings | _readings_of_code(launch.compiled(), launch.programs)
    except NoCompiler:
        return readings


def _readings_of_code(code: Compiled, programs: int) -> dict[str, float]:
    # a descriptor's boxes are copied by TMA, whose rows have no less than 16 bytes
    by_tma = [_TMA_BYTES] if "cp.async.bulk" in code.stages["ptx"] else []
    return {
        "instructions": warp_instructions(code),  # of a warp, slow branches left out
        # microseconds for all of them, if no lane ever waits
        "instruction time": instruction_time(code, programs),
        "narrowest load": min([*code.loads, *by_tma], default=0),  # bytes; 0: atomics alone
        "loads before a branch": loads_before_first_branch(code)[0],  # of the machine code
    }


def loop_in(source: str) -> str:
    """A line with a loop that runs when a kernel runs: what is in it would be counted once."""
    for node in ast.walk(ast.parse(source)):
        is_static = isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter)
        if isinstance(node, ast.For | ast.While) and not is_static:
            return source.splitlines()[node.lineno - 1].strip()
    return ""
