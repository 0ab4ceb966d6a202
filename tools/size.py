"""Count the lines that the project has to keep, by room: `make size`.

    python tools/size.py ../before      # those of another checkout

A room is a folder at the top. Counted are all lines, empty ones too, of each .py, .toml, .sh, .js
and .json in git's index, as they lie in the working tree. A .json that only keeps what was measured
is a record, and doesn't count: those of `RECORDS`, which a run on some machine wrote. Every other
one is taken for code or cases: settings, lists that a tool or a test reads, expected verdicts. The
lines of notebooks' code cells are counted apart, since no room has them.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = ".py", ".toml", ".sh", ".js", ".json"
RECORDS = (
    "benchmarks/results/",
    "notebooks/records/",
    "tests/lab/test_interpreted_bf16.json",
)


def files(root: Path) -> list[Path]:
    """Those of git's index that the working tree has, relative to `root`."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, encoding="utf-8")
    names = map(Path, filter(None, listed.split("\0")))
    return [path for path in names if (root / path).is_file()]


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
    """Part of the notebooks ('core' up to 10, 'beyond', or a folder) -> lines of code cells."""
    parts: Counter[str] = Counter()
    for path in (path for path in files(root) if path.suffix == ".ipynb"):
        part = path.parent.name
        if part == "notebooks":
            part = "core" if path.name[:2] <= "10" else "beyond"
        for cell in json.loads((root / path).read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                parts[part] += len("".join(cell["source"]).splitlines())
    return parts


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    rooms = lines_by_room(checkout)
    total = sum(rooms.values(), Counter())
    print(f"{'room':16}", *(f"{name:>8}" for name in (*COUNTED, "all")))
    for room, lines in [*sorted(rooms.items()), ("sum", total)]:
        print(f"{room:16}", *(f"{lines[x]:8,}" for x in COUNTED), f"{lines.total():8,}")
    cells = lines_of_cells(checkout)
    parts = ", ".join(f"{part} {lines:,}" for part, lines in sorted(cells.items()))
    print(f"\nall Python: {total['.py']:,} lines\ncode cells: {cells.total():,} lines: {parts}")
