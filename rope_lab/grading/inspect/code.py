"""What the compiler made of a launch, and what a warp executes of it."""

import ast
import re
from dataclasses import dataclass

from ...compiler.compile import Compiled
from ...compiler.instructions import loads_before_first_branch, warp_instructions
from ...compiler.stages import Operation, sass_by_row
from ..climb.readings import loop_in

_WIDTHS = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}  # of an access; else 4 bytes


@dataclass(frozen=True)
class Code:
    """A launch's kernel, compiled."""

    compiled: Compiled  # all stages
    loads_first: int  # loads before the first branch
    loads: int  # all of them
    in_flight: int  # bytes that a program requests before it needs the first of them, at most
    instructions: float | None  # that a warp executes, slow branches left out; None: not known
    why_not: str = ""  # why they aren't known


def code_of(compiled: Compiled) -> Code:
    """Read the machine code, which is for an NVIDIA GPU."""
    first, every = loads_before_first_branch(compiled)
    # of the source: one of the machine code may be in a sine's slow branch
    why_not = _loop_or_if_in(compiled.program)
    return Code(
        compiled,
        loads_first=first,
        loads=every,
        in_flight=32 * compiled.num_warps * _in_flight(list(sass_by_row(compiled).values())),
        instructions=None if why_not else warp_instructions(compiled),
        why_not=why_not,
    )


def _loop_or_if_in(source: str) -> str:
    """Why not every program executes each line of a kernel once; '' if it does."""
    if loop_in(source):
        return "not counted: loop"
    for function in (x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.FunctionDef)):
        arguments = {x.arg for x in function.args.args if "constexpr" not in ast.unparse(x)}
        nodes = [*ast.walk(function)]
        stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        for test in (x.test for x in nodes if isinstance(x, ast.If)):
            if (arguments | stored) & {x.id for x in ast.walk(test) if isinstance(x, ast.Name)}:
                return f"not counted: if {ast.unparse(test)}"
    return ""


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
        registers = [int(number) for number in re.findall(r"\bR(\d+)\b", operation.text)]
        if name in ("BAR", "DEPBAR", "EXIT", "BRA") or waiting & set(registers):
            requested, waiting = 0, set()
        if size := _bytes_loaded(operation):
            requested += size
            if name == "LDG" and registers:
                waiting |= {registers[0] + k for k in range(-(-size // 4))}
            most = max(most, requested)
    return most
