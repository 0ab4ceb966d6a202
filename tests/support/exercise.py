"""An exercise of a notebook: what judges it, and wrong answers.

Each `answers_NN.py` has those of its notebook.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rope_lab.rungs import rung_of


@dataclass(frozen=True)
class WrongAnswer:
    """The worked solution with a mistake in it.

    Attributes:
        words: some of the verdict's, or what the mistake is.
        instead: text of the solution -> what is in its place.
        state: the verdict's first word; "RIGHT" for the solution in other words.
        kind: of the evidence; '' if the verdict has its words instead.
        line: part of a line to which the evidence points; '' for none.
    """

    words: str
    instead: Mapping[str, str]
    state: str = "WRONG"
    kind: str = ""
    line: str = ""

    def made_in(self, solution: str) -> str:
        """The solution with the mistake in it.

        Raises:
            ValueError: a text that is replaced is not in the solution.
        """
        return replaced(solution, self.instead)


@dataclass(frozen=True)
class KernelOfTheRungBelow:
    """Our kernel of the rung below, which isn't on this one yet."""

    rung: int  # this one
    words: str
    state: str = "NOT YET"
    kind: str = ""
    line: str = ""

    def made_in(self, solution: str) -> str:
        """The cell with that kernel; loads Triton."""
        ours, below = (rung_of(number).source.strip() for number in (self.rung, self.rung - 1))
        return replaced(solution, {ours: below})


@dataclass(frozen=True)
class Exercise:
    """An entry of a notebook's `answers_NN.py`."""

    cell: str  # the id of its stub in the notebook, and of its solution among the solutions
    judged_by: object = ()  # what its check takes, a `Spec` or a rung; a tuple if several
    wrong_answers: tuple[WrongAnswer | KernelOfTheRungBelow, ...] = ()

    @property
    def judges(self) -> tuple[object, ...]:
        return self.judged_by if isinstance(self.judged_by, tuple) else (self.judged_by,)


def rows_of(cell: str) -> list[WrongAnswer]:
    """The wrong answers to an exercise in `wrong_answers.txt`."""
    return [answer for of, answer in _rows() if of == cell]


@functools.cache
def _rows() -> list[tuple[str, WrongAnswer]]:
    text = Path(__file__).with_name("wrong_answers.txt").read_text(encoding="utf-8")
    found = []
    for block in text.split("\n\n")[1:]:  # the first one explains
        first, *changed = block.strip("\n").splitlines()
        cell, kind, line = first.split(" | ", 2)
        old, new = ("\n".join(x[2:] for x in changed if x[0] == sign) for sign in "-+")
        found.append((cell, WrongAnswer(f"{old} -> {new}", {old: new}, kind=kind, line=line)))
    return found


def replaced(text: str, instead: Mapping[str, str]) -> str:
    """A text with some of its parts replaced.

    Raises:
        ValueError: a part is not there.
    """
    for part, other in instead.items():
        if part not in text:
            raise ValueError(f"{part!r} is not in the solution")
        text = text.replace(part, other)
    return text


def exercises_of(module: ModuleType) -> list[Exercise]:
    """The entries of an `answers_NN.py`, in their order there."""
    return [entry for entry in vars(module).values() if isinstance(entry, Exercise)]
