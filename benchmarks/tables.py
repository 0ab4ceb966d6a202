"""Files of results, and the one writer of tables: nothing in a table is typed."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NOTHING = "–"

Cells = dict[tuple[str, ...], dict[str, str]]  # the first cells of a line -> column -> text


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


@dataclass(frozen=True)
class Table:
    """Text that belongs between two marks of a page."""

    page: Path
    mark: str
    text: str

    def filled_in(self, page: str) -> str:
        """The page's text with the table between its marks."""
        begin, end = f"<!-- {self.mark}: begin -->", f"<!-- {self.mark}: end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        return f"{before}{begin}\n{self.text}\n{end}{after}"

    def write(self) -> None:
        """Put the table into the page."""
        text = self.page.read_text(encoding="utf-8")
        self.page.write_text(self.filled_in(text), encoding="utf-8")


def cells(rows: list[dict], place: Callable, column: Callable, text: Callable) -> Cells:
    """What a table shows of each row, in the order of the rows."""
    found: Cells = {}
    for row in rows:
        found.setdefault(place(row), {})[column(row)] = text(row)
    return found


def table(
    head: Sequence[str], found: Cells, columns: Sequence[str] = (), nothing: str = NOTHING
) -> str:
    """Columns of `head` on the left, then those of the cells, as they come or as they are named."""
    columns = columns or list(dict.fromkeys(name for line in found.values() for name in line))
    lines = [_line(*head, *columns), "|" + "---|" * len(head) + "---:|" * len(columns)]
    for place, line in found.items():
        lines.append(_line(*place, *(line.get(name, nothing) for name in columns)))
    return "\n".join(lines)


def _line(*texts: str) -> str:
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"
