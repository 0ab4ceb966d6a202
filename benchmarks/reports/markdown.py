"""Tables in Markdown, and the place of a table in a file."""

from dataclasses import dataclass
from pathlib import Path

NOTHING = "–"


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


def head(columns: list[str], left: int) -> list[str]:
    """A table's first two lines; the first `left` columns are aligned on the left."""
    numbers = len(columns) - left
    return [line(columns), "|" + "---|" * left + "---:|" * numbers]


def line(cells: list[str]) -> str:
    """One row."""
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
