"""What a warp executes of a launch's kernel, read from its source and its machine code."""

import ast
import re

from ...compiler.compile import Compiled
from ...compiler.stages import Operation, sass_by_row
from ..climb.readings import loop_in

_WIDTHS = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}  # of an access; else 4 bytes


def why_not_counted(source: str) -> str:
    """Why not every program executes each line of a kernel once; '' if it does.

    Of the source: a branch of the machine code may be the slow one of a sine.
    """
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


def requested_before_needed(code: Compiled) -> int:
    """The most bytes that a program has requested before an instruction needs one of them."""
    most, requested, waiting = 0, 0, set()
    for operation in sass_by_row(code).values():
        name = operation.opcode.split(".")[0]
        registers = [int(number) for number in re.findall(r"\bR(\d+)\b", operation.text)]
        if name in ("BAR", "DEPBAR", "EXIT", "BRA") or waiting & set(registers):
            requested, waiting = 0, set()
        if size := _bytes_loaded(operation):
            requested += size
            if name == "LDG" and registers:
                waiting |= {registers[0] + k for k in range(-(-size // 4))}
            most = max(most, requested)
    return 32 * code.num_warps * most


def _bytes_loaded(operation: Operation) -> int:
    """Bytes that a lane loads from global memory by one instruction."""
    name, *parts = operation.opcode.split(".")
    if not name.startswith("LDG"):
        return 0
    return next((_WIDTHS[part] for part in parts if part in _WIDTHS), 4)
