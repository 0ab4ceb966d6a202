"""The instruments: what they show of the kernel in a reader's launch.

Readings come from a probe in the interpreter, and from the machine code of the launch at the
headline shape.
"""

import ast
import math

import torch
from torch import Tensor

from ...compiler.compile import Compiled
from ...compiler.instructions import loads_before_first_branch, warp_instructions
from ...compiler.launches import Launch
from ...compiler.listings import NoCompiler
from ...compiler.stages import evaluations_of_threads
from ...rungs import SHAPE
from ..counts import Counted
from .targets import IN_THE_SOURCE, IN_THE_THREADS

_TMA_BYTES = 16  # a row of a box, at least


def headline(device: str) -> list[Tensor]:
    """The arguments of `my_rope(t, freqs)` at the headline shape, in bf16."""
    s, _, _, d = SHAPE
    t = torch.empty(SHAPE, dtype=torch.bfloat16, device=device)
    return [t, torch.empty((s, 1, 1, d), dtype=torch.float32, device=device)]


def readings_of(counted: Counted, launch: Launch) -> dict[str, float]:
    """A number for each instrument, for an H200.

    The first three come from the probe, the others from the headline shape. Readings of machine
    code are missing if Triton has no compiler and the kernel's code isn't stored.

    Args:
        counted: what the kernel did with the probe.
        launch: at the headline shape. It is compiled, which raises the errors of `compile_for`.
    """
    size = counted.elements * counted.element_bytes
    order = "".join(event.kind for event in counted.events)  # L a load, E an evaluation
    readings = {
        # in multiples of the bytes of t
        "bytes requested": (sum(counted.loaded.values()) + counted.stored) / size,
        IN_THE_SOURCE: counted.evaluations / (counted.elements / 2),  # a pair
        "loads after a sine": order.partition("E")[2].count("L"),  # of the first program
        "programs": launch.programs,
    }
    try:
        return readings | _readings_of_code(launch.compiled(), launch.programs)
    except NoCompiler:
        return readings


def _readings_of_code(code: Compiled, programs: int) -> dict[str, float]:
    # a descriptor's boxes are copied by TMA, in rows of at least 16 bytes
    by_tma = [_TMA_BYTES] if "cp.async.bulk" in code.stages["ptx"] else []
    return {
        IN_THE_THREADS: evaluations_of_threads(code) * programs / (math.prod(SHAPE) / 2),  # a pair
        "instructions": warp_instructions(code),  # of a warp, slow branches left out
        "narrowest load": min([*code.loads, *by_tma], default=0),  # bytes; 0: atomics alone
        "loads before a branch": loads_before_first_branch(code)[0],  # of the machine code
    }


def loop_in(source: str) -> str:
    """The first line with a loop that stays in the machine code; its body would be counted once."""
    for node in ast.walk(ast.parse(source)):
        is_static = isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter)
        if isinstance(node, ast.For | ast.While) and not is_static:
            return source.splitlines()[node.lineno - 1].strip()
    return ""
