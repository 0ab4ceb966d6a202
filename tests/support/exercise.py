"""An exercise of a notebook: what judges it, and wrong answers beside its specification's mistakes.

Each `answers_NN.py` has those of its notebook.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from rope_lab.judge.climb.check_rung import uses_of
from rope_lab.judge.mistakes import Mistake, Mistaken, replaced
from rope_lab.judge.spec import Spec
from rope_lab.rungs import Rung, rung_of


class WrongAnswer(Mistake):
    """A mistake in the worked solution that no specification knows.

    Args:
        words: some of the verdict's.
        instead: text of the solution -> what is in its place.
        state: the verdict's first word; "RIGHT" for the solution in other words.
    """

    def __init__(self, words: str, instead: Mapping[str, str], state: str = "WRONG") -> None:
        super().__init__(words, instead)
        self.state = state


@dataclass(frozen=True)
class KernelOfTheRungBelow:
    """Our kernel of the rung below, which isn't on this one yet."""

    rung: int  # this one
    words: str
    state: str = "NOT YET"

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

    @property
    def mistaken(self) -> list[Mistaken]:
        """Solutions with the mistakes that its judges know; of a rung, those made in its kernel."""
        return [one for judge in self.judges for one in self._mistaken(judge)]

    def _mistaken(self, judge: object) -> list[Mistaken]:
        if isinstance(judge, Rung):
            specs = [use.wanted for use in uses_of(judge.number)]
            known = {words: one for wanted in specs for words, one in wanted.mistakes.items()}
            of_all = [one for one in known.values() if isinstance(one, Mistaken)]
            return [one for one in of_all if one.solution.cell == self.cell]
        known = judge.mistakes | judge.roundings if isinstance(judge, Spec) else {}
        return [one for one in known.values() if isinstance(one, Mistaken)]


def exercises_of(module: ModuleType) -> list[Exercise]:
    """The entries of an `answers_NN.py`, in their order there."""
    return [entry for entry in vars(module).values() if isinstance(entry, Exercise)]
