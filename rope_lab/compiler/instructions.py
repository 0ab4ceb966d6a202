"""What a compiled kernel executes: instructions of a warp, and loads before the first branch."""

import re

from .compile import Compiled
from .stages import INSTRUCTION, Operation, operations, sass_by_row

_LOADS = ("LDG", "UTMALDG", "UBLKCP")  # LDGSTS and the last two load into shared memory
LANE_INSTRUCTIONS_PER_US = 132 * 128 * 1980  # H200: SMs, lanes of each, cycles a microsecond


def warp_instructions(code: Compiled) -> int:
    """Machine instructions that a warp executes if no angle is large: without slow branches.

    Follows the machine code from its first line: forwards where a branch leads forwards, on where
    it leads backwards, up to the end. So it counts what is in a loop once.
    """
    return len(_rows_executed(code.sass.splitlines()))


def executed(code: Compiled) -> list[Operation]:
    """The machine instructions that `warp_instructions` counts, each with its line."""
    rows = _rows_executed(code.sass.splitlines())
    at = sass_by_row(code)
    return [at[row] for row in rows if row in at]


def _rows_executed(rows: list[str]) -> list[int]:
    """Numbers of the rows of machine code that a warp comes through."""
    labels = {row.split(":")[0]: place for place, row in enumerate(rows) if row.startswith(".L")}
    place, passed = 0, []
    while place < len(rows):
        found = re.match(INSTRUCTION, rows[place])
        place += 1
        if not found:
            continue
        passed.append(place - 1)
        if found[1] == "EXIT":
            break
        branch = re.search(r"BRA(?:\.\w+)* `\((\.L\w+)\)", found[1])
        if branch and labels[branch[1]] > place:
            place = labels[branch[1]]
    return passed


def instruction_time(code: Compiled, programs: int) -> float:
    """Microseconds that an H200 needs for the instructions of a launch, if no lane ever waits."""
    lanes = 32 * code.num_warps * programs
    return warp_instructions(code) * lanes / LANE_INSTRUCTIONS_PER_US


def loads_before_first_branch(code: Compiled) -> tuple[int, int]:
    """Loads from global memory before the machine code's first branch, and all of them.

    Of an exact sine, the slow branch for large angles has loads of its own.
    """
    names = [operation.opcode for operation in operations(code, "sass")]
    is_load = [name.startswith(_LOADS) for name in names]
    branches = [place for place, name in enumerate(names) if name.startswith("BRA")]
    first = branches[0] if branches else len(names)
    return sum(is_load[:first]), sum(is_load)
