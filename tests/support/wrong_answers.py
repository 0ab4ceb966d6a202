"""The rows of `wrong_answers.txt`, which says what they are."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from rope_lab import solved

STATES = "WRONG", "NOT YET", "RIGHT", "RIGHT, but"
_CHANGE = r"((?:-(?: .*)?\n)+)((?:\+(?: .*)?\n)+)"
_ROW = re.compile(rf"(\S+) \| ([^|]+) \|(?: (.+))?\n((?:{_CHANGE})+)")


@dataclass(frozen=True)
class WrongAnswer:
    """The worked solution of an exercise with a mistake in it, or in other words."""

    cell: str  # the id of the exercise's stub, and of its solution
    changes: tuple[tuple[str, str], ...]  # a text of the solution, and what is in its place
    state: str  # how the verdict begins
    kind: str  # of its evidence; '' for an answer that is known by the verdict's words
    part: str  # of a line that the evidence names, or of these words

    def made_in(self, solution: str) -> str:
        """The solution with the mistake in it."""
        return replaced(solution, *self.changes)


@functools.cache
def wrong_answers() -> list[WrongAnswer]:
    """All rows, in their order."""
    file = Path(__file__).with_name("wrong_answers.txt")
    _, *rows = file.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return [read(row + "\n") for row in rows]


def read(row: str) -> WrongAnswer:
    """Raises ValueError for what is no row, or for one of no exercise."""
    parts = _ROW.fullmatch(row)
    if not parts:
        raise ValueError(f"not a row of wrong_answers.txt:\n{row}")
    cell, told, part, changes, *_ = parts.groups(default="")
    if cell not in _cells():
        raise ValueError(f"no exercise has the cell {cell}")
    if told[0].isupper() and told not in STATES:
        raise ValueError(f"{told!r} is not one of {STATES}")
    state, kind = (told, "") if told in STATES else ("WRONG", told)
    texts = tuple((_text(old), _text(new)) for old, new in re.findall(_CHANGE, changes))
    return WrongAnswer(cell, texts, state, kind, part)


def _text(lines: str) -> str:
    return "\n".join(line[2:] for line in lines.splitlines())


def _cells() -> set[str]:
    return {cell for one in solved.exercises_in(solved.ORIGINALS) for cell in one.stubs}


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """A text with parts of it replaced, one after the other.

    Raises:
        ValueError: a part is not there.
    """
    for old, new in changes:
        if old not in text:
            raise ValueError(f"{old!r} is not in the solution")
        text = text.replace(old, new)
    return text
