"""A guess at what a reader did, and which of the guesses that hold says most."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from torch import Tensor

from .evidence import Evidence

UNKNOWN = "no mistake that this check knows: compare the first wrong index by hand"


class Says(IntEnum):
    """How much a guess says, from most to least."""

    SEEN = 0  # what was watched while the kernel ran
    OWN = 1  # a mistake that only this exercise knows
    WHOLE = 2  # one thing is done wrongly everywhere
    PART = 3  # in a part of each row
    FITTED = 4  # with a number that was worked out from the result: much else is a factor, too
    PLACE = 5  # no guess at a cause: where it is wrong, or in which case


@dataclass(frozen=True)
class Guess:
    """Words of the verdict, and what bears them out."""

    words: str  # what it looks like
    result: Tensor | None = None  # what would have come out; None: tested already
    says: Says = Says.WHOLE  # which of several guesses that hold is told

    def holds(self, e: Evidence) -> bool:
        """Did just this come out? What is right but for its rounding bears out no guess."""
        if self.result is None:
            return True
        return e.got_is(self.result) and not e.close(self.result, e.expected)


seen = partial(Guess, says=Says.SEEN)
own = partial(Guess, says=Says.OWN)
whole = partial(Guess, says=Says.WHOLE)
part = partial(Guess, says=Says.PART)
fitted = partial(Guess, says=Says.FITTED)
place = partial(Guess, says=Says.PLACE)

Rule = Callable[[Evidence], Iterator[Guess]]


def told_of(rules: Iterable[Rule], cases: Iterable[Evidence]) -> str:
    """One line: what it looks like, or that it looks like nothing we know.

    Several guesses may hold in a case, because two mistakes have the same result there: of one
    sequence, a position is also the number of its token. So those of the first wrong case are tried
    on the next one, until one is left. Of those that are the same mistake in every case, the one
    that says most is told. What holds in a later case alone is not: the verdict shows the first.
    """
    found: dict[str, Says] = {}
    told: list[str] = []
    for number, evidence in enumerate(cases):
        guesses = (guess for rule in rules for guess in rule(evidence))
        held = {guess.words: guess.says for guess in guesses if guess.holds(evidence)}
        if number:  # the place is that of another case
            held = {words: says for words, says in held.items() if says < Says.PLACE}
            found = {words: found[words] for words in found if words in held} or found
        else:
            found = held
        most = min(found.values(), default=None)
        told = sorted(words for words, says in found.items() if says == most)
        if len(told) < 2:
            break
    return told[0] if told else UNKNOWN
