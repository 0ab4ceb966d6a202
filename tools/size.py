"""Count the lines that the project has to keep, by room: `make size`.

    python tools/size.py ../before      # those of another checkout

A room is a folder at the top; the folders in it are told, too, and the first line of a room has all
of it. Counted are all lines, empty ones too, of each .py, .toml, .sh, .js and .json in git's index,
as they lie in the working tree, and apart from them the lines of notebooks' code cells. A .json of
`RECORDS` doesn't count: a run on some machine wrote it.
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = ".py", ".toml", ".sh", ".js", ".json"
CELLS = "cells"
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


def lines_by_folder(root: Path) -> dict[tuple[str, ...], Counter[str]]:
    """(room,) and (room, folder) -> ending of a file's name, or `CELLS` -> lines."""
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for path in files(root):
        kind = CELLS if path.suffix == ".ipynb" else path.suffix
        if kind not in (*COUNTED, CELLS) or path.as_posix().startswith(RECORDS):
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = len((code_of(text) if kind == CELLS else text).splitlines())
        folders = path.parts[:-1][:2] or ("top level",)
        for place in {folders[:1], folders}:
            found[place][kind] += lines
    return found


def code_of(notebook: str) -> str:
    """The code cells, one below the other."""
    cells = [cell for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def table(found: dict[tuple[str, ...], Counter[str]]) -> str:
    """A line for each room, and for each folder in it; nothing where there is no line."""
    whole = sum((lines for place, lines in found.items() if len(place) == 1), Counter())
    rows = [("", *COUNTED, "all", CELLS)]
    for place, lines in [*sorted(found.items()), (("sum",), whole)]:
        counts = [lines[kind] for kind in COUNTED]
        counts += [sum(counts), lines[CELLS]]
        name = "  " * (len(place) - 1) + place[-1]
        rows.append((name, *(f"{count:,}" if count else "" for count in counts)))
    return "\n".join(f"{name:18}" + "".join(f"{x:>8}" for x in texts) for name, *texts in rows)


if __name__ == "__main__":
    print(table(lines_by_folder(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)))
