"""What kind of mistake does a wrong result look like? Rules answer, in three files.

Each guess is tested on the numbers: a wrong result with every sign turned is right, or it is what
the specification makes of inputs that were read in the wrong order. A guess that the numbers do not
bear out is not made. `evidence.py` has what guesses are made from, `wrong_elements.py` and
`wrong_angles.py` the guesses. `observed.py` has what needs none: it was watched while the kernel
ran, or the exercise knows it. Where no guess holds, it looks up which elements or angles a wrong
one is computed from. `written.py` reads the source, for what one line of it means.

To add a guess, yield it from a rule: its words, and the result that would have come out. Where a
rule is in its list does not matter. A wrong answer proves it.
"""

from collections.abc import Iterable
from itertools import chain

from . import observed, wrong_angles, wrong_elements
from .evidence import Evidence, Rank

RULES = observed.RULES + wrong_elements.RULES + wrong_angles.RULES
UNKNOWN = "no mistake that this check knows: compare the first wrong index by hand"


def kind_of_mistake(cases: Iterable[Evidence], *, least: Rank = Rank.FOUND) -> str:
    """One line: what it looks like, or that it looks like nothing we know.

    Several guesses may hold in a case, because two mistakes have the same result there: of one
    sequence, a position is also the number of its token. So those of the first wrong case are tried
    on the next one, until one is left. Of those that are the same mistake in every case, the one
    that says most is told. What holds in a later case alone is not: the verdict shows the first.
    Nor, of several, is a mistake of the exercise that would have shown in an earlier case.

    `least`: of guesses that are made, the one that says least.
    """
    found: dict[str, Rank] = {}
    told: list[str] = []
    first: Evidence | None = None
    for number, evidence in enumerate(cases):
        held: dict[str, Rank] = {}
        for guess in chain.from_iterable(rule(evidence) for rule in RULES):
            if guess.rank <= least and guess.holds(evidence):
                held[guess.words] = min(guess.rank, held.get(guess.words, guess.rank))
        first = first or evidence
        if number:  # the place is that of another case
            held = {words: rank for words, rank in held.items() if rank < Rank.PLACE}
            found = {words: found[words] for words in found if words in held} or found
        else:
            found = held
        most = min(found.values(), default=None)
        told = sorted(words for words, rank in found.items() if rank == most)
        if len(told) < 2:
            break
    if len(told) > 1:
        told = [words for words in told if not first.had_shown_earlier(words)] or told
    return told[0] if told else UNKNOWN
