"""What kind of mistake does a wrong result look like? Rules in three files answer.

Each guess is tested on the numbers: a wrong result is right with every sign flipped, or equals what
the specification computes from inputs in the wrong order. A guess that the numbers do not confirm
is not made. `evidence.py` collects what guesses are tested on. `wrong_elements.py` and
`wrong_angles.py` contain the guesses. `observed.py` needs no guess: it reports what was observed
while the kernel ran, and mistakes that the exercise knows. If no guess holds, it finds the elements
or angles from which a wrong element was computed. `written.py` reads the source and explains a line
that does not mean what it seems to.

To add a guess, yield it from a rule: its words, and the result that the mistake leads to. The order
of the rules does not matter. Add a wrong answer to the tests that gets the guess.
"""

from collections.abc import Iterable
from itertools import chain

from . import observed, wrong_angles, wrong_elements
from .evidence import Evidence, Rank

RULES = observed.RULES + wrong_elements.RULES + wrong_angles.RULES
UNKNOWN = "no mistake that this check knows: compare the first wrong index by hand"


def kind_of_mistake(cases: Iterable[Evidence], *, least: Rank = Rank.FOUND) -> str:
    """One line: what it looks like, or that it looks like no known mistake.

    Several guesses may hold in a case, because two mistakes have the same result there: in a single
    sequence, a position is also the number of its token. So the guesses that hold in the first
    wrong case are tried on the next ones, until one is left. If several hold in every case, the
    verdict has the one that says most. It leaves out a guess that holds only in a later case,
    because the verdict shows the first. If there are others, it also leaves out a mistake of the
    exercise that would have made an earlier case wrong.

    `least`: the last rank whose guesses are made.
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
