"""Files of results, and the one writer of tables: nothing in a table is typed.

`tools/hugging_face.py` fills in its page with these, too.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NOTHING = "–"

Cells = dict[tuple[str, ...], dict[str, str]]  # the first cells of a line -> column -> text


def load(path: Path) -> dict:
    """A file of results."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def save(path: Path, results: dict) -> None:
    """Write a file of results, a line for each row and field of its head; never half of it."""
    fields = [f"  {json.dumps(key)}: {_by_line(value)}" for key, value in results.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")
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
        return fill(page, self.mark, f"{self.text}\n")

    def write(self) -> None:
        """Put the table into the page."""
        text = self.page.read_text(encoding="utf-8")
        self.page.write_text(self.filled_in(text), encoding="utf-8")


def fill(page: str, mark: str, text: str) -> str:
    """The page with this text between `<!-- mark: begin ... -->` and `<!-- mark: end -->`.

    Raises:
        ValueError: these two lines are not there exactly once.
    """
    begin, end = rf"^<!-- {mark}: begin\b.*-->\n", rf"^<!-- {mark}: end -->$"
    counts = [len(re.findall(line, page, re.MULTILINE)) for line in (begin, end)]
    if counts != [1, 1]:
        raise ValueError(f"the marks '{mark}: begin' and '{mark}: end' have to be there once")
    whole = re.compile(rf"({begin}).*({end})", re.MULTILINE | re.DOTALL)
    return whole.sub(lambda marks: f"{marks[1]}{text}{marks[2]}", page)


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
    lines = [
        (*place, *(line.get(name, nothing) for name in columns)) for place, line in found.items()
    ]
    return markdown((*head, *columns), lines, numbers=len(columns))


def markdown(head: Sequence[object], lines: Iterable[Iterable[object]], numbers: int = 0) -> str:
    """A table in Markdown; its last columns, as many as `numbers`, are aligned to the right."""
    aligned = "|" + "---|" * (len(head) - numbers) + "---:|" * numbers
    return "\n".join([_line(head), aligned, *map(_line, lines)])


def _line(texts: Iterable[object]) -> str:
    return "|" + "|".join(f" {text} " if text != "" else " " for text in texts) + "|"
