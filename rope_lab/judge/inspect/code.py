"""What a warp executes of a launch's kernel, read from its source and its machine code."""

import ast
import re

from ...compiler.compile import Compiled
from ...compiler.stages import Operation, has_a_loop, sass_by_row
from ..climb.instruments import loop_in

_WIDTHS = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}  # of an access; else 4 bytes


def why_not_counted(code: Compiled) -> str:
    """Why not every program executes each instruction of a kernel once; '' if it does.

    A loop that a function of a library has is in the machine code alone. A branch there may be the
    slow one of a sine, so ifs are those of the source.
    """
    if loop_in(code.program) or has_a_loop(code):
        return "not counted: loop"
    functions = [x for x in ast.walk(ast.parse(code.program)) if isinstance(x, ast.FunctionDef)]
    for function in functions:
        arguments = {x.arg for x in function.args.args if "constexpr" not in ast.unparse(x)}
        nodes = [*ast.walk(function)]
        stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        for test in (x.test for x in nodes if isinstance(x, ast.If | ast.IfExp)):
            if _is_known_late(test, arguments | stored):
                return f"not counted: if {ast.unparse(test)}"
    return ""


def _is_known_late(test: ast.expr, names: set[str]) -> bool:
    """Whether the compiler may not know a test: it has one of these names, or asks the program."""
    nodes = [*ast.walk(test)]
    called = {ast.unparse(x.func).rpartition(".")[2] for x in nodes if isinstance(x, ast.Call)}
    asks = {"program_id", "num_programs", "load"} & called
    return bool(asks or names & {x.id for x in nodes if isinstance(x, ast.Name)})


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
