"""Compile the sample of calls for every GPU and write the table: `make compile_matrix`.

docs/compile_matrix.json is the one source; the tables of docs/compile_matrix.md come from it.
tests/kernels/test_compile_matrix.py compiles again and allows nothing worse.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rope_lab.compiler.matrix import TARGETS, Row, cells, row_of

ROOT = Path(__file__).resolve().parent.parent
TABLE, PAGE = "docs/compile_matrix.json", "docs/compile_matrix.md"
BEGIN = "<!-- matrix: begin (make compile_matrix writes what follows) -->"
END = "<!-- matrix: end -->"
HEAD = "| GPU | loads | stores | registers | spilled | shared memory |\n|---|---|---|---|---|---|\n"


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
    rows = ",\n".join(json.dumps(row.as_json()) for row in table.rows)
    head = json.dumps({"triton": table.triton, "date": table.date})[1:-1]
    return f'{{{head}, "rows": [\n{rows}\n]}}\n'


def as_page(table: Table, page: str) -> str:
    """The page with the table between its two markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    made = f"Made with Triton {table.triton} on {table.date}: {summary(table.rows)}\n"
    sections = [section(call, table) for call in dict.fromkeys(row.call for row in table.rows)]
    return before + "\n\n".join([BEGIN, made.rstrip(), *sections, END]) + after


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
        f"| {row.target} | {widths(row.loads)} | {widths(row.stores)} | {row.registers} "
        f"| {row.spilled} B | {row.shared} B |"
        for row in rows
    ]
    title = call[0].upper() + call[1:]
    return f"### {title}\n\n{kernels}\n\n{HEAD}" + "\n".join(lines)


def widths(accesses: dict[int, int]) -> str:
    """'4 × 16 B, 2 × 8 B', the wide ones first."""
    return ", ".join(f"{accesses[width]} × {width} B" for width in sorted(accesses, reverse=True))


def make_table(before: Table | None) -> Table:
    """Compile everything. Where nothing changed, the date stays."""
    import triton  # to read and show a table needs no Triton

    rows = tuple(row_of(*cell) for cell in cells())
    if before is not None and (before.triton, before.rows) == (triton.__version__, rows):
        return before
    return Table(triton.__version__, date.today().isoformat(), rows)


def main(root: Path = ROOT) -> int:
    """Write both files and say what changed; 0."""
    before = read_table(root) if (root / TABLE).exists() else None
    table = make_table(before)
    known = () if before is None else before.rows
    (root / TABLE).write_text(as_json(table), encoding="utf-8")
    page = root / PAGE
    page.write_text(as_page(table, page.read_text(encoding="utf-8")), encoding="utf-8")
    changed = [row for row in table.rows if row not in known]
    print(f"{len(table.rows)} rows, {len(changed)} of them new or changed")
    for row in changed if known else ():
        print(f"  {row.call} on {row.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
