"""A compiled kernel, stage by stage, mapped to the lines of its source.

Every stage contains source locations: TTIR and TTGIR as `loc(...)`, PTX as `.loc`, and the machine
code in a table of line numbers that nvdisasm prints.
"""

import ast
import math
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .compile import Compiled

STAGES = ("ttir", "ttgir", "ptx", "sass")
_BRANCH = r"BRA(?:\.\w+)* (?:!?U?P\w+, )*`\((\.L\w+)\)"  # and its target
_SINE = r"^.*(?:math\.|__nv_(?:fast_)?)(?:sin|cos)f?\b.*$"  # in TTGIR: Triton's own, or CUDA's
# a type: its sizes, the dimension that a slice lacks, and its layout
_BLOCK = r"tensor<((?:\d+x)+)f\d+, (?:#ttg\.slice<\{dim = (\d+), parent = )?(#blocked\d*)"
INSTRUCTION = r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;"  # in the machine code


@dataclass(frozen=True)
class Operation:
    """One operation of a stage: its text, and the line of `Compiled.program` it came from."""

    text: str
    line: int  # counted from 1; 0 if unknown

    @property
    def opcode(self) -> str:
        """Its name: 'tt.load', 'ld.global.v4.b32', 'LDG.E.128'."""
        text = re.sub(r"^@!?%?\w+\s+", "", self.text)  # PTX and SASS: executed if a predicate holds
        text = re.sub(r"^%[\w:]+(?:, %[\w:]+)* = ", "", text)  # TTIR and TTGIR: its result
        return re.split(r"[\s;]", text, maxsplit=1)[0].strip('"')


def operations(code: Compiled, stage: str, piece: str = "") -> list[Operation]:
    """The operations of a stage, in order; those of the kernel's lines that contain `piece`.

    Raises:
        ValueError: no line of the kernel contains it.
    """
    if stage == "ptx":
        found = _in_ptx(code.stages["ptx"], re.escape(code.file))
    elif stage == "sass":
        found = sass_by_row(code).values()
    else:
        found = _in_mlir(code.stages[stage], re.escape(code.file))
    if not piece:
        return list(found)
    wanted = {number for number, text in kernel_lines(code).items() if piece in text}
    if not wanted:
        raise ValueError(f"no line of {code.kernel} contains {piece!r}")
    return [operation for operation in found if operation.line in wanted]


def opcodes(code: Compiled, stage: str, piece: str = "", keep: str = "") -> dict[str, int]:
    """How often each operation occurs, in the order of first occurrence.

    Args:
        code: what `compile_for` returned.
        stage: 'ttir', 'ttgir', 'ptx' or 'sass'.
        piece: only from the kernel's lines that contain this text.
        keep: only those whose name matches this regular expression.
    """
    names = (operation.opcode for operation in operations(code, stage, piece))
    return dict(Counter(name for name in names if re.search(keep, name)))


def with_names(code: Compiled, piece: str) -> list[str]:
    """The fp32 arithmetic of a line in PTX, with the kernel's names instead of registers.

    For kernels in which a thread holds one element of a block. A name means what its line loaded or
    computed, or an argument; a value without a name is called a, b, ... Constants are decimal.
    """
    names, letters = _names_of_registers(code), iter("abcdefghijklmno")

    def name(match: re.Match) -> str:
        if match[1]:
            return f"{struct.unpack('>f', bytes.fromhex(match[1]))[0]:g}"
        if match[0] not in names:
            names[match[0]] = next(letters)
        return names[match[0]]

    found = (o.text.rstrip(";") for o in operations(code, "ptx", piece) if _computes(o))
    return [re.sub(r"%\w+|\b0f([0-9A-F]{8})", name, text) for text in found]


def executed(code: Compiled) -> list[Operation]:
    """The machine instructions that a warp executes if no angle is large: without slow branches.

    Follows the machine code from its first line to its end. It takes forward branches and ignores
    backward branches, so it counts the body of a loop once.
    """
    at = sass_by_row(code)
    return [at[row] for row in _rows_executed(code)]


def _rows_executed(code: Compiled) -> list[int]:
    at, leads_to = sass_by_row(code), _branches(code)
    row, passed = 0, []
    while row <= max(at) and not (passed and at[passed[-1]].text == "EXIT"):
        if row in at:
            passed.append(row)
        row = max(row + 1, leads_to.get(row, 0))
    return passed


def has_a_loop(code: Compiled) -> bool:
    """Whether the machine code has a loop, other than in the slow branch of a sine or cosine."""
    backwards = [at for at, to in _branches(code).items() if to < at]
    if re.search(r"\b(sin|cos)", code.program):
        backwards = set(backwards) & set(_rows_executed(code))
    return bool(backwards)


def _branches(code: Compiled) -> dict[int, int]:
    """For each branch: its row in `Compiled.sass` -> the row of its target."""
    rows, found = code.sass.splitlines(), {}
    labels = {row.split(":")[0]: place for place, row in enumerate(rows) if row.startswith(".L")}
    for place, operation in sass_by_row(code).items():
        if branch := re.search(_BRANCH, operation.text):
            found[place] = labels[branch[1]]
    return found


def jumped_over(code: Compiled) -> int:
    """Machine instructions that a warp skips if no angle is large: slow branches."""
    return len(operations(code, "sass")) - len(executed(code))


def signature(code: Compiled) -> str:
    """The arguments of the compiled function, one per line, with what is known about each."""
    arguments = re.search(r"tt\.func public @\w+\((.*?)\) attributes", code.stages["ttir"])[1]
    return re.sub(r" loc\(\"?\w+\"?(?:\(#loc\d*\))?\)", "", arguments).replace(", %", "\n%")


def kernel_lines(code: Compiled) -> dict[int, str]:
    """The kernel's lines by their number in `program`, from `def` on."""
    lines = code.program.splitlines()
    functions = (x for x in ast.parse(code.program).body if isinstance(x, ast.FunctionDef))
    own = next(function for function in functions if function.name == code.kernel)
    return {n: lines[n - 1] for n in range(own.lineno, own.end_lineno + 1)}


@dataclass(frozen=True)
class Layout:
    """A blocked layout: which thread holds which element; per dimension, as in TTGIR."""

    size_per_thread: tuple[int, ...]  # neighbors in one thread
    threads_per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]  # the dimension that varies fastest, then the others

    def owner(self, *index: int) -> tuple[int, int]:
        """The warp that holds this element, and the lane in it."""
        warp = lane = 0
        per_dimension = zip(
            index, self.size_per_thread, self.threads_per_warp, self.warps, strict=True
        )
        for i, size, threads, warps in per_dimension:
            lane = threads * lane + i // size % threads
            warp = warps * warp + i // (size * threads) % warps
        return warp, lane

    def held(self, *shape: int) -> int:
        """Elements of a block that all threads hold, each as often as threads hold it."""
        held = 1
        per_dimension = zip(
            shape, self.size_per_thread, self.threads_per_warp, self.warps, strict=True
        )
        for elements, size, threads, warps in per_dimension:
            once = min(size, elements) * threads * warps  # what the pattern covers
            held *= once * math.ceil(elements / once)
        return held


def layouts_in(ttgir: str) -> dict[str, Layout]:
    """The blocked layouts of a module, by their names."""
    pattern = r"^(#blocked\d*) = #ttg\.blocked<\{sizePerThread = (.+?), threadsPerWarp = (.+?), "
    pattern += r"warpsPerCTA = (.+?), order = (.+?)\}>"
    found = re.findall(pattern, ttgir, re.MULTILINE)
    return {
        name: Layout(*(tuple(map(int, re.findall(r"\d+", one))) for one in numbers))
        for name, *numbers in found
    }


def evaluations_of_threads(code: Compiled) -> int:
    """Sines and cosines that the threads of a program compute.

    Each thread computes those of the elements that it holds, so several may compute the same one.
    """
    ttgir = code.stages["ttgir"]
    layouts, count = layouts_in(ttgir), 0
    for row in re.findall(_SINE, ttgir, re.MULTILINE):
        for sizes, dimension, name in re.findall(_BLOCK, row)[-1:]:
            shape = [int(size) for size in sizes.split("x") if size]
            if dimension:  # a slice of a block that has one more
                shape.insert(int(dimension), 1)
            count += layouts[name].held(*shape)
    return count


def layout_of(code: Compiled, piece: str) -> Layout:
    """Layout of what is loaded or computed in the kernel's line that contains `piece`.

    Raises:
        ValueError: the layout isn't `blocked` in TTGIR, as for a part of another block.
    """
    types = [operation.text for operation in operations(code, "ttgir", piece)]
    names = re.findall(r"(#blocked\d*)>$", "\n".join(types), re.MULTILINE)
    if not names:
        raise ValueError(f"not a blocked layout: {types[-1] if types else piece}")
    return layouts_in(code.stages["ttgir"])[names[0]]


def _in_mlir(text: str, file: str) -> Iterator[Operation]:
    places = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))

    def line(place: str) -> int:
        """The line of a place; in a call, the outermost line in the source."""
        if call := re.fullmatch(r"callsite\((.+) at (.+)\)", place):
            return line(call[2]) or line(call[1])
        if named := re.fullmatch(r'"[^"]*"\((.+)\)', place):
            return line(named[1])
        if place in places:
            return line(places[place])
        numbers = re.search(rf'{file}":(\d+):', place)
        return int(numbers[1]) if numbers else 0

    for match in re.finditer(r"^ {4,}(\S.*?)(?: loc\((\S+)\))?$", text, re.MULTILINE):
        if not match[1].startswith(("}", "^")):
            yield Operation(match[1], line(match[2] or ""))


def _in_ptx(text: str, file: str) -> Iterator[Operation]:
    line = 0
    for row in text.splitlines():
        if re.match(r"\s*\.loc\s", row):
            line = _last_number(rf"{file}:(\d+)", row)
        elif re.match(r"\s+(?:@!?%p\d+ )?[a-z]", row):
            yield Operation(re.sub(r"\s+", " ", row.split("//")[0]).strip(), line)


def sass_by_row(code: Compiled) -> dict[int, Operation]:
    """Row of `Compiled.sass` -> the machine instruction in it."""
    file = re.escape(code.file)
    lines, called_from = kernel_lines(code), _callers(code.stages["ptx"], file)
    line, label, found = 0, None, {}
    for place, row in enumerate(code.sass.splitlines()):
        if "//##" in row:
            line = _last_number(rf'{file}", line (\d+)', row)
            line = line if line in lines else called_from.get(line, 0)
        elif instruction := re.match(INSTRUCTION, row):
            stop = instruction[1] == f"BRA `({label})"  # after the end: a trap
            if instruction[1] != "NOP" and not stop:
                found[place] = Operation(instruction[1], line)
            label = None
        elif row.startswith(".L"):
            label = row.rstrip(":")
    return found


def _computes(operation: Operation) -> bool:
    return re.match(r"(fma|mul|add|sub|neg|cvt)\..*f32", operation.opcode) is not None


def _names_of_registers(code: Compiled) -> dict[str, str]:
    """PTX registers -> the argument or the variable of the kernel that they contain."""
    arguments = re.findall(r"^%(\w+):", signature(code), re.MULTILINE)
    lines, register_of = kernel_lines(code), {}
    for operation in operations(code, "ptx"):
        assigned = re.match(r"\s*(\w+) = ", lines.get(operation.line, ""))
        loaded = re.match(r"ld\.param\S* (%\w+), \[\w+_param_(\d+)\]", operation.text)
        if loaded and int(loaded[2]) < len(arguments):
            register_of[arguments[int(loaded[2])]] = loaded[1]
        elif assigned and (_computes(operation) or operation.opcode.startswith("ld.global")):
            result = re.search(r"%\w+", operation.text.split(operation.opcode)[1])
            register_of[assigned[1]] = result[0]  # the last register of a line wins
    return {register: name for name, register in register_of.items()}


def _callers(ptx: str, file: str) -> dict[int, int]:
    """For each line of an inlined function: the kernel's line that calls it, if there is only one.

    PTX has this information; the table in the machine code does not.
    """
    found = {}
    for places in re.findall(r"^\s*\.loc\s.*//(.*@\[.*)$", ptx, re.MULTILINE):
        inner, *_, outer = re.findall(rf"(?:{file}:(\d+)|\S+:\d+:\d+)", places)
        if inner and outer:
            found.setdefault(int(inner), set()).add(int(outer))
    return {inner: outer.pop() for inner, outer in found.items() if len(outer) == 1}


def _last_number(pattern: str, text: str) -> int:
    return int((re.findall(pattern, text) or [0])[-1])
