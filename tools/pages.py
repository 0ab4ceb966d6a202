"""What tools write into pages: text between two marks, and tables in Markdown."""

import re
from collections.abc import Iterable, Sequence


def fill(page: str, name: str, text: str) -> str:
    """The page with this text between `<!-- name: begin ... -->` and `<!-- name: end -->`.

    Raises:
        ValueError: these two lines are not there exactly once.
    """
    begin, end = rf"^<!-- {name}: begin .*-->\n", rf"^<!-- {name}: end -->$"
    counts = [len(re.findall(mark, page, re.MULTILINE)) for mark in (begin, end)]
    if counts != [1, 1]:
        raise ValueError(f"the marks '{name}: begin' and '{name}: end' have to be there once")
    whole = re.compile(rf"({begin}).*({end})", re.MULTILINE | re.DOTALL)
    return whole.sub(lambda marks: f"{marks[1]}{text}{marks[2]}", page)


def table(head: Sequence[object], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    first, *others = [f"| {' | '.join(map(str, line))} |" for line in (head, *rows)]
    return "\n".join([first, f"|{'---|' * len(head)}", *others])
