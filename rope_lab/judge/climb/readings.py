"""What the instruments show of a kernel: counted in the interpreter, and in its machine code."""

import ast

from ...compiler.instructions import instruction_time, loads_before_first_branch, warp_instructions
from .launch import Launch

_TMA_BYTES = 16  # a row of a box, at least


def readings_of(counted: dict, launch: Launch) -> dict[str, float]:
    """A number for each instrument, for an H200.

    The first three are of the probe, the others of the headline shape.

    Args:
        counted: a verdict's.
        launch: at the headline shape; it is compiled, and raises as `compile_for`.
    """
    size, code = counted["elements"] * counted["element_bytes"], launch.compiled()
    order = "".join(event["kind"] for event in counted["events"])  # L a load, E an evaluation
    # a descriptor's boxes are copied by TMA, whose rows have no less than 16 bytes
    by_tma = [_TMA_BYTES] if "cp.async.bulk" in code.stages["ptx"] else []
    return {
        # in multiples of the bytes of t
        "bytes requested": (sum(counted["loaded"].values()) + counted["stored"]) / size,
        "sin/cos evaluations": counted["evaluations"] / (counted["elements"] / 2),  # a pair
        "loads after a sine": order.partition("E")[2].count("L"),  # of the first program
        "programs": launch.programs,
        "instructions": warp_instructions(code),  # of a warp, slow branches left out
        # microseconds for all of them, if no lane ever waits
        "instruction time": instruction_time(code, launch.programs),
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
