"""An exercise: what judges it, and the wrong answers that readers give, with what they are told.

    HALF_A_TABLE = Exercise(
        cell="05-ex3",
        judged_by=rope_by_first_half,
        wrong_answers=(
            WrongAnswer(
                mistake="a cosine twice",
                instead={"x2 * cos + x1 * sin": "x2 * cos + x1 * cos"},
                told="the wrong function: a cosine for the sine, in the second half",
            ),
        ),
    )

Each `nNN/exercises.py` has those of its notebook, beside the specifications that judge them. Tests
paste every wrong answer over its stub, and read the verdict.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from ..rungs import rung_of


@dataclass(frozen=True)
class WrongAnswer:
    """The worked solution with a mistake in it."""

    mistake: str  # its name
    instead: Mapping[str, str]  # text of the solution -> what is in its place
    told: str  # words of the verdict
    state: str = "WRONG"  # the verdict's first word; "RIGHT" for the solution in other words

    def made_of(self, solution: str) -> str:
        """The cell with the mistake in it.

        Raises:
            ValueError: a text that is replaced is not in the solution.
        """
        return _replaced(solution, self.instead)


@dataclass(frozen=True)
class KernelOfTheRungBelow:
    """Our kernel of the rung below, which isn't on this one yet."""

    rung: int  # this one
    told: str
    state: str = "NOT YET"
    mistake: str = "the kernel of the rung below"

    def made_of(self, solution: str) -> str:
        """The cell with that kernel; loads Triton."""
        ours, below = (rung_of(number).source.strip() for number in (self.rung, self.rung - 1))
        return _replaced(solution, {ours: below})


@dataclass(frozen=True)
class WrongValue:
    """A wrong number, or wrong choices, for a stub that asks for these."""

    given: object  # a number, or a list of all answers
    told: str  # words of the verdict


@dataclass(frozen=True)
class Exercise:
    """An entry of a notebook's `exercises.py`."""

    cell: str  # the id of its stub in the notebook, and of its solution among the solutions
    judged_by: object  # what its check takes: a `Spec`, a rung, mistakes; a tuple if several
    wrong_answers: tuple[WrongAnswer | KernelOfTheRungBelow | WrongValue, ...]


def exercises_of(module: ModuleType) -> list[Exercise]:
    """The entries of a notebook's `exercises.py`, in their order there."""
    return [entry for entry in vars(module).values() if isinstance(entry, Exercise)]


def _replaced(solution: str, instead: Mapping[str, str]) -> str:
    for text, other in instead.items():
        if text not in solution:
            raise ValueError(f"{text!r} is not in the solution")
        solution = solution.replace(text, other)
    return solution
