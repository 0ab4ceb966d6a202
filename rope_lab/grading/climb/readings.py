"""What the instruments show of a kernel: counted in the interpreter, and in its machine code."""

import ast
import inspect
import textwrap
from dataclasses import dataclass

from ...compiler.instructions import (
    instruction_time,
    loads_before_first_branch,
    warp_instructions,
)
from ...rungs import SHAPE
from .launch import Launch

TMA_BYTES = 16  # a row of a box, at least


@dataclass(frozen=True)
class Readings:
    """One number for each instrument, for an H200; after the first three, at the headline shape."""

    requested: float  # bytes that programs load and store, in multiples of the bytes of t
    evaluations: float  # of sin and cos together, for each pair
    order: str  # what the first program does: L a load, E an evaluation, S a store
    programs: int  # of the launch
    instructions: int  # that a warp executes, slow branches left out
    instruction_us: float  # what an H200 needs for all of them, if no lane ever waits
    narrowest_load: int  # bytes; 0 if nothing but atomics loads
    loads_first: int  # loads before the first branch of the machine code

    @property
    def loads_after_a_sine(self) -> int:
        """Loads of the first program that come after an evaluation."""
        first = self.order.find("E")
        return self.order[first:].count("L") if first >= 0 else 0


def readings_of(counted: dict, launch: Launch) -> Readings:
    """From `Verdict.counted`, and what the launch compiles to; raises as `compile_for`."""
    size, code = counted["elements"] * counted["element_bytes"], launch.compiled()
    # a descriptor's boxes are copied by TMA, whose rows have no less than 16 bytes
    by_tma = [TMA_BYTES] if "cp.async.bulk" in code.stages["ptx"] else []
    return Readings(
        requested=(sum(counted["loaded"].values()) + counted["stored"]) / size,
        evaluations=counted["evaluations"] / (counted["elements"] / 2),
        order="".join(event["kind"] for event in counted["events"]),
        programs=launch.programs,
        instructions=warp_instructions(code),
        instruction_us=instruction_time(code, launch.programs),
        narrowest_load=min([*code.loads, *by_tma], default=0),
        loads_first=loads_before_first_branch(code)[0],
    )


def loop_in(source: str) -> str:
    """A line with a loop that runs when a kernel runs: what is in it would be counted once."""
    for node in ast.walk(ast.parse(source)):
        is_static = isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter)
        if isinstance(node, ast.For | ast.While) and not is_static:
            return source.splitlines()[node.lineno - 1].strip()
    return ""


def refusal(launches: list[Launch]) -> str:
    """Why the launches at the headline shape can't be counted; '' if they can."""
    if len(launches) != 1:
        return f"it makes {len(launches)} launches for {SHAPE}, where 1 is asked for"
    words = "instructions can't be counted through a loop; write rows as a tile, [:, None]"
    loop = loop_in(textwrap.dedent(inspect.getsource(launches[0].kernel.fn)))
    return f"{words}: {loop}" if loop else ""
