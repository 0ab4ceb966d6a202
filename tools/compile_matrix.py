"""Compile the sample of calls for every GPU and write the table: `make compile_matrix`.

docs/compile_matrix.json is the one source; the tables of docs/compile_matrix.md come from it.
tests/kernels/test_compile_matrix.py compiles again and allows nothing worse.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from pathlib import Path

import pages
from calls.plans import plans_of
from calls.sample import Sample, sample_calls
from rope_kernels.launch.plan import Plan, Tensors
from rope_lab.compiler.compile import Compiled, compile_plan
from rope_lab.compiler.targets import target_of

ROOT = Path(__file__).resolve().parent.parent
TABLE, PAGE = "docs/compile_matrix.json", "docs/compile_matrix.md"
HEAD = "GPU", "loads", "stores", "registers", "spilled", "shared memory"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950", "gfx1100", "gfx1200")

# --- a call and a GPU ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One call compiled for one GPU. Counts are those of instructions in the text."""

    call: str  # its name in `sample_calls`
    target: str
    kernel: str
    loads: dict[int, int]  # from global memory: bytes a thread -> number of instructions
    stores: dict[int, int]  # to global memory
    registers: int  # a thread; on AMD, vector registers
    spilled: int  # bytes a thread
    shared: int  # bytes a program

    @classmethod
    def from_json(cls, row: dict) -> "Row":
        """What `asdict` has returned, after JSON has made text of the widths."""
        widths = {
            name: {int(width): count for width, count in row[name].items()}
            for name in ("loads", "stores")
        }
        return cls(**(row | widths))


@cache
def calls() -> dict[str, Sample]:
    """The sample, made once."""
    return sample_calls()


def planned(call: str, target: str) -> tuple[Plan, Tensors]:
    """The launch of the sample's call that is compiled, and the kernel's tensors."""
    sample = calls()[call]
    return plans_of(sample.call, target_of(target).engine)[sample.launch]


@cache
def compiled(call: str, target: str) -> Compiled:
    """A call of the sample, compiled for a GPU, once a process.

    Raises:
        RuntimeError: it does not compile.
    """
    return compile_plan(target, *planned(call, target))


def row_of(call: str, target: str) -> Row:
    """The row of a call and a GPU, as the compiler makes it now; raises as `compiled`."""
    code = compiled(call, target)
    needs = {name: getattr(code, name) for name in ("registers", "spilled", "shared")}
    return Row(call, target, code.kernel, code.loads, code.stores, **needs)


def cells() -> Iterator[tuple[str, str]]:
    """Every call with every GPU, call by call for one GPU after another."""
    for target in TARGETS:
        for call in calls():
            yield call, target


# --- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """The committed table: what it was made with, and its rows in the order of `cells`."""

    triton: str  # version
    date: str  # on which the rows last changed
    rows: tuple[Row, ...]

    def row(self, call: str, target: str) -> Row:
        """Raises KeyError where there is none."""
        return {(row.call, row.target): row for row in self.rows}[call, target]


def read_table(root: Path = ROOT) -> Table:
    """The committed table."""
    table = json.loads((root / TABLE).read_text(encoding="utf-8"))
    rows = tuple(Row.from_json(row) for row in table["rows"])
    return Table(table["triton"], table["date"], rows)


def as_json(table: Table) -> str:
    """The text of the file, a row a line, so that a diff shows the rows that changed."""
    rows = ",\n".join(json.dumps(asdict(row)) for row in table.rows)
    head = json.dumps({"triton": table.triton, "date": table.date})[1:-1]
    return f'{{{head}, "rows": [\n{rows}\n]}}\n'


def as_page(table: Table, page: str) -> str:
    """The page with the table between its marks."""
    made = f"Made with Triton {table.triton} on {table.date}: {summary(table.rows)}"
    sections = [section(call, table) for call in dict.fromkeys(row.call for row in table.rows)]
    return pages.fill(page, "matrix", "\n" + "\n\n".join([made, *sections, ""]))


def summary(rows: Iterable[Row]) -> str:
    """How many rows there are, and which of them spill."""
    rows = tuple(rows)
    calls = len({row.call for row in rows})
    spilling = [f"{row.call} on {row.target}" for row in rows if row.spilled]
    spills = f"These spill: {'; '.join(spilling)}." if spilling else "No row spills."
    return f"{calls} calls for {len(TARGETS)} GPUs. {spills}"


def section(call: str, table: Table) -> str:
    """One call: its name, its kernel, and a row for every GPU."""
    rows = [table.row(call, target) for target in TARGETS]
    kernels = " or ".join(f"`{kernel}`" for kernel in dict.fromkeys(row.kernel for row in rows))
    lines = [
        [
            *(row.target, widths(row.loads), widths(row.stores), row.registers),
            *(f"{row.spilled} B", f"{row.shared} B"),
        ]
        for row in rows
    ]
    title = call[0].upper() + call[1:]
    return f"### {title}\n\n{kernels}\n\n{pages.table(HEAD, lines)}"


def widths(accesses: dict[int, int]) -> str:
    """'4 × 16 B, 2 × 8 B', the wide ones first."""
    return ", ".join(f"{accesses[width]} × {width} B" for width in sorted(accesses, reverse=True))


def make_table(before: Table) -> Table:
    """Compile everything. Where nothing changed, the date stays."""
    import triton  # to read and show a table needs no Triton

    rows = tuple(row_of(*cell) for cell in cells())
    if (before.triton, before.rows) == (triton.__version__, rows):
        return before
    return Table(triton.__version__, date.today().isoformat(), rows)


def main(root: Path = ROOT) -> int:
    """Write both files and say what changed; 0."""
    before = read_table(root)
    table = make_table(before)
    (root / TABLE).write_text(as_json(table), encoding="utf-8")
    page = root / PAGE
    page.write_text(as_page(table, page.read_text(encoding="utf-8")), encoding="utf-8")
    changed = [row for row in table.rows if row not in before.rows]
    print(f"{len(table.rows)} rows, {len(changed)} of them new or changed")
    for row in changed:
        print(f"  {row.call} on {row.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
