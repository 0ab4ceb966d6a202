"""Count the lines that the project has to keep, by room: `make size`.

    python tools/size.py ../before      # those of another checkout

A room is a folder at the top. Counted are all lines, empty ones too, of each .py, .toml, .sh, .js
and .json in git's index, as they lie in the working tree. A .json that only keeps what was measured
is a record, and doesn't count: those of `RECORDS`, which a run on some machine wrote. Every other
one is taken for code or cases: settings, lists that a tool or a test reads, expected verdicts,
prose. The lines of notebooks' code cells are counted apart, since no room has them.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = ".py", ".toml", ".sh", ".js", ".json"
RECORDS = (
    "benchmarks/results/",
    "notebooks/records/",
    "tests/lab/test_interpreted_bf16.json",
)


def files(root: Path) -> Iterator[Path]:
    """Those of git's index that the working tree has, relative to `root`."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True)
    names = map(Path, filter(None, listed.split("\0")))
    return (path for path in names if (root / path).is_file())


def lines_by_room(root: Path) -> dict[str, Counter[str]]:
    """Room -> ending of a file's name -> lines."""
    rooms: dict[str, Counter[str]] = {}
    for path in files(root):
        if path.suffix in COUNTED and not path.as_posix().startswith(RECORDS):
            room = path.parts[0] if len(path.parts) > 1 else "top level"
            text = (root / path).read_text(encoding="utf-8")
            rooms.setdefault(room, Counter())[path.suffix] += len(text.splitlines())
    return rooms


def lines_of_cells(root: Path) -> Counter[str]:
    """Part of the notebooks -> lines of code cells."""
    parts: Counter[str] = Counter()
    for path in files(root):
        if path.suffix == ".ipynb":
            cells = json.loads((root / path).read_text(encoding="utf-8"))["cells"]
            code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            parts[part_of(path)] += sum(len(source.splitlines()) for source in code)
    return parts


def part_of(notebook: Path) -> str:
    """'core' up to number 10, 'beyond' after it, or its folder."""
    if notebook.parent.name != "notebooks":
        return notebook.parent.name
    return "core" if notebook.name[:2] <= "10" else "beyond"


def report(root: Path) -> Iterator[str]:
    """The table, a line at a time."""
    rooms = lines_by_room(root)
    total = sum(rooms.values(), Counter())
    yield "".join([f"{'room':16}", *(f"{name:>9}" for name in (*COUNTED, "all"))])
    for room, lines in [*sorted(rooms.items()), ("sum", total)]:
        numbers = *(lines[suffix] for suffix in COUNTED), lines.total()
        yield "".join([f"{room:16}", *(f"{number:9,}" for number in numbers)])
    yield f"\nall Python: {total['.py']:,} lines"
    cells = lines_of_cells(root)
    parts = ", ".join(f"{part} {lines:,}" for part, lines in sorted(cells.items()))
    yield f"code cells: {cells.total():,} lines: {parts}"


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    sys.stdout.writelines(f"{line}\n" for line in report(checkout))
