"""A guess at what a reader did, and how much it says."""

from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from torch import Tensor

from .evidence import Evidence


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
