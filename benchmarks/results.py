"""Files of results: how they are written, how rows are found in them, and tables made of them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.case import LIMITS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NOTHING = "–"
CALL, PROVIDER = itemgetter("shape", "direction"), itemgetter("provider")


def load(path: Path) -> dict:
    """A file of results."""
    return json.loads(Path(path).read_text())


def save(path: Path, results: dict) -> None:
    """Write a file of results, a line for each row and field of its head; never half of it."""
    fields = [f"  {json.dumps(key)}: {_by_line(value)}" for key, value in results.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text("{\n" + ",\n".join(fields) + "\n}\n")
    unfinished.replace(path)


def _by_line(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
    if isinstance(value, dict) and value:
        fields = (f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in value.items())
        return "{\n    " + ",\n    ".join(fields) + "\n  }"
    return json.dumps(value)


def file_name(gpu: str) -> str:
    """A GPU's part of the names of its files."""
    return gpu.lower().replace(" ", "-")


def crossed(rows: list[dict], place: Callable[[dict], Any], column: Callable[[dict], Any]) -> dict:
    """place -> column -> row, in the order of the rows."""
    found: dict[Any, dict[Any, dict]] = {}
    for row in rows:
        found.setdefault(place(row), {})[column(row)] = row
    return found


def comparisons(rows: list[dict]) -> Iterator[tuple[dict[str, dict], dict]]:
    """Rows measured in turns: provider -> row, and the limit's row; in the order of measuring."""
    for together in crossed(rows, lambda row: (row.get("set"), *CALL(row)), PROVIDER).values():
        limit = next((together[name] for name in LIMITS if name in together), None)
        if limit is not None:
            yield together, limit


def share(row: dict, limit: dict) -> float:
    """Of the limit's speed."""
    return limit["median_us"] / row["median_us"]


@dataclass(frozen=True)
class Table:
    """Text that belongs between two marks of a file."""

    file: Path
    mark: str
    text: str

    def filled_in(self, page: str) -> str:
        """The file's text with the table between its marks."""
        begin, end = f"<!-- {self.mark}: begin -->", f"<!-- {self.mark}: end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        return f"{before}{begin}\n{self.text}\n{end}{after}"

    def write(self) -> None:
        """Put the table into the file."""
        page = self.file.read_text(encoding="utf-8")
        self.file.write_text(self.filled_in(page), encoding="utf-8")


def head(columns: list[str], left: int) -> list[str]:
    """A table's first two lines; the first `left` columns are aligned on the left."""
    numbers = len(columns) - left
    return [line(columns), "|" + "---|" * left + "---:|" * numbers]


def line(cells: list[str]) -> str:
    """One row."""
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
