"""What a warp executes in a launch's kernel, read from its source and its machine code."""

import ast
import re

from ...compiler.compile import Compiled
from ...compiler.stages import Operation, has_a_loop, jumped_over, operations, sass_by_row
from ..climb.instruments import loop_in

_WIDTHS = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}  # of an access; else 4 bytes
_BY_DESCRIPTOR = {"loads": ("UTMALDG", "UBLKCP"), "stores": ("UTMASTG", "UTMAREDG")}
_INTO_SHARED_MEMORY = ("LDGSTS", *_BY_DESCRIPTOR["loads"])
_FEW = 0.2  # of all instructions: a masked load may be skipped, too


def why_not_counted(code: Compiled) -> str:
    """Why not every program executes each instruction of a kernel once; '' if it does.

    A loop that a function of a library has is in the machine code alone. A branch there may be the
    slow one of a sine, so ifs are those of the source. In other functions of a library either side
    of a branch may be the usual one.
    """
    if loop_in(code.program):
        return "not counted: loop"
    if any(by_descriptor(code).values()):
        return "not counted: tensor descriptors, whose copies it waits for"
    if has_a_loop(code):
        return "not counted: loop"
    is_of_a_library = "tt.extern_elementwise" in code.stages["ttir"]
    if is_of_a_library and jumped_over(code) > _FEW * len(operations(code, "sass")):
        return "not counted: branches in a function of a library"
    functions = [x for x in ast.walk(ast.parse(code.program)) if isinstance(x, ast.FunctionDef)]
    for function in functions:
        nodes = [*ast.walk(function)]
        named = [x for x in nodes if isinstance(x, ast.arg)]
        arguments = {x.arg for x in named if "constexpr" not in ast.unparse(x)}
        stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        for test in (x.test for x in nodes if isinstance(x, ast.If | ast.IfExp)):
            if _is_known_late(test, arguments | stored):
                return f"not counted: if {ast.unparse(test)}"
    return ""


def _is_known_late(test: ast.expr, names: set[str]) -> bool:
    """Whether the compiler may not know a test's result: it uses these names or the program."""
    nodes = [*ast.walk(test)]
    called = {ast.unparse(x.func).rpartition(".")[2] for x in nodes if isinstance(x, ast.Call)}
    asks = {"program_id", "num_programs", "load"} & called
    return bool(asks or names & {x.id for x in nodes if isinstance(x, ast.Name)})


def by_descriptor(code: Compiled) -> dict[str, int]:
    """Loads and stores that copy a block by its tensor descriptor, by one thread."""
    names = [operation.opcode for operation in operations(code, "sass")]
    return {what: sum(x.startswith(known) for x in names) for what, known in _BY_DESCRIPTOR.items()}


def waits_twice(code: Compiled) -> bool:
    """Whether a load waits for another one, which has its address or its mask."""
    loaded: set[str] = set()  # values of TTIR that were loaded, or computed of such
    for operation in operations(code, "ttir"):
        result, _, rest = operation.text.partition(" = ")
        if not result.startswith("%"):
            continue
        is_load = operation.opcode in ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
        waits = not loaded.isdisjoint(re.findall(r"%\w+", rest))
        if is_load and waits:
            return True
        if is_load or waits:
            loaded.update(re.findall(r"%\w+", result))
    return False


def requested_before_needed(code: Compiled) -> int:
    """The most bytes that a program has requested before an instruction needs one of them.

    0 where that isn't known: what is copied into shared memory arrives in no register.
    """
    if any(one.opcode.startswith(_INTO_SHARED_MEMORY) for one in operations(code, "sass")):
        return 0
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
