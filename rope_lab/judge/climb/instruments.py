"""The instruments: what they show of the kernel of a reader's launch.

Readings are counted in the interpreter, with a probe, and in the machine code that the launch at
the headline shape is compiled to.
"""

import ast
from collections.abc import Callable
from functools import partial

import torch

from ...compiler.compile import Compiled
from ...compiler.instructions import instruction_time, loads_before_first_branch, warp_instructions
from ...compiler.launches import Launch
from ...compiler.listings import NoCompiler
from ...rungs import SHAPE
from ..counts import Counted

_TMA_BYTES = 16  # a row of a box, at least


def rotation(candidate: Callable, out: str = "") -> Callable[[], object]:
    """The call `candidate(t, freqs)` at the headline shape, in bf16 and without memory.

    `out`: the keyword that gets t itself; '' for none.
    """
    s, _, _, d = SHAPE
    t = torch.empty(SHAPE, dtype=torch.bfloat16, device="meta")
    freqs = torch.empty((s, 1, 1, d), dtype=torch.float32, device="meta")
    return partial(candidate, t, freqs, **({out: t} if out else {}))


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
