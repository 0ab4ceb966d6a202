"""What the compiler made of a launch, and what a warp executes of it, loops included."""

import ast
import re
import textwrap
from collections import Counter
from dataclasses import dataclass

from ...compiler.compile import Compiled
from ...compiler.instructions import loads_before_first_branch, warp_instructions
from ...compiler.stages import Operation, kernel_lines, operations, sass_by_row

_WIDTHS = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}  # of an access; else 4 bytes
_NOT_COUNTED = "not counted: loop"


@dataclass(frozen=True)
class Code:
    """A launch's kernel, compiled.

    Attributes:
        compiled: all stages.
        shuffles: in the machine code.
        barriers: in the machine code.
        loads_first: loads before the first branch.
        loads: all of them.
        in_flight: bytes that a program requests before it needs the first of them, at most.
        instructions: that a warp executes, slow branches left out; None if that is not known.
        estimated: `instructions` come through a loop: static ones times the visits of its lines.
        why_not: why they aren't known.
    """

    compiled: Compiled
    shuffles: int
    barriers: int
    loads_first: int
    loads: int
    in_flight: int
    instructions: float | None
    estimated: bool = False
    why_not: str = ""


def code_of(compiled: Compiled, visits: dict[int, int] | None, loads: dict[int, int]) -> Code:
    """Read the machine code.

    Args:
        compiled: for an NVIDIA GPU.
        visits: how often a program comes to each line, from the kernel's `def`; None if that
            depends on the size.
        loads: bytes that a program requests at a visit, by line.
    """
    names = Counter(operation.opcode.split(".")[0] for operation in operations(compiled, "sass"))
    first, every = loads_before_first_branch(compiled)
    # without one in the source, a loop of the machine code is in a sine's slow branch
    loops = _loops(compiled) if _lines_in_loops(compiled.program) else []
    found: dict = {"instructions": warp_instructions(compiled)}
    if loops and visits is None:
        found = {"instructions": None, "why_not": f"{_NOT_COUNTED}, whose turns depend on the size"}
    elif loops:
        found = _through_loops(compiled, loops, visits, loads)
    return Code(
        compiled,
        shuffles=names["SHFL"],
        barriers=names["BAR"],
        loads_first=first,
        loads=every,
        in_flight=32 * compiled.num_warps * _in_flight(list(sass_by_row(compiled).values())),
        **found,
    )


def _lines_in_loops(program: str) -> set[int]:
    """Lines of loops that are there when a kernel runs, counted from the first as 0."""
    lines = set()
    for node in ast.walk(ast.parse(program)):
        static = isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter)
        if isinstance(node, ast.For | ast.While) and not static:
            lines |= set(range(node.body[0].lineno - 1, node.end_lineno))
    return lines


def _loops(code: Compiled) -> list[range]:
    """Rows of the machine code that a branch leads back over; the trap behind the end is none."""
    labels, found = {}, []
    rows = sass_by_row(code)
    for place, row in enumerate(code.sass.splitlines()):
        if label := re.match(r"(\.L\w+):", row):
            labels[label[1]] = place
        branch = re.search(r"BRA\S*.* `\((\.L\w+)\)", rows[place].text) if place in rows else None
        if branch and branch[1] in labels:
            found.append(range(labels[branch[1]], place + 1))
    return found


def _through_loops(
    code: Compiled, loops: list[range], visits: dict[int, int], loads: dict[int, int]
) -> dict:
    """Each instruction of a loop counts as often as its line was visited.

    A compiler may unroll a loop. Then a line's instructions are there several times, and together
    they serve all its visits. How many times, the bytes that its loads bring tell.
    """
    rows, begin = sass_by_row(code), min(kernel_lines(code))
    source = textwrap.dedent("\n".join(kernel_lines(code).values()))
    visits = _without_static_turns(source, visits)
    in_a_loop = {place for loop in loops for place in loop} & set(rows)
    line_of = {place: operation.line - begin for place, operation in rows.items()}
    repeated = _lines_in_loops(source)
    own = set(range(begin, begin + len(kernel_lines(code))))
    if {line + 1 for line in _lines_in_loops(code.program)} - own:
        return {"instructions": None, "why_not": f"{_NOT_COUNTED}, in a function that is called"}
    brought = Counter()
    for place, operation in rows.items():
        brought[line_of[place]] += 32 * code.num_warps * _bytes_loaded(operation)
    copies = {line: max(1.0, brought[line] / loads[line]) for line in repeated if loads.get(line)}
    unrolled = max(copies.values(), default=1.0)
    most = max((visits.get(line, 0) for line in repeated), default=0)
    total = 0.0
    for place, line in line_of.items():
        if line in repeated:
            total += visits.get(line, 0) / copies.get(line, unrolled)
        else:  # a line of a function that is called, or of none
            total += most / unrolled if place in in_a_loop else 1
    return {"instructions": total, "estimated": True}


def _without_static_turns(source: str, visits: dict[int, int]) -> dict[int, float]:
    """Visits but for the turns of `tl.static_range`: each of them has instructions of its own."""
    visits = dict(visits)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.For) and "static_range" in ast.unparse(node.iter):
            first, last = node.body[0].lineno - 1, node.end_lineno
            turns = visits.get(first, 0) / max(1, visits.get(node.lineno - 1, 0))
            for line in range(first, last):
                visits[line] = visits.get(line, 0) / max(1, turns)
    return visits


def _bytes_loaded(operation: Operation) -> int:
    """Bytes that a lane loads from global memory by one instruction."""
    name, *parts = operation.opcode.split(".")
    if not name.startswith("LDG"):
        return 0
    return next((_WIDTHS[part] for part in parts if part in _WIDTHS), 4)


def _in_flight(code: list[Operation]) -> int:
    """The most bytes that a lane has requested before an instruction needs one of them."""
    most, requested, waiting = 0, 0, set()
    for operation in code:
        name = operation.opcode.split(".")[0]
        registers = _registers_in(operation.text)
        if name in ("BAR", "DEPBAR", "EXIT", "BRA") or waiting & set(registers):
            requested, waiting = 0, set()
        if size := _bytes_loaded(operation):
            requested += size
            if name == "LDG" and registers:
                waiting |= {registers[0] + k for k in range(-(-size // 4))}
            most = max(most, requested)
    return most


def _registers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\bR(\d+)\b", text)]
