"""What kind of mistake does a wrong result look like? A file for each kind.

Each guess is tested on the numbers: a wrong result with every sign turned is right, or it is what
the specification makes of inputs that were read in the wrong order. A guess that the numbers do not
bear out is not made. `evidence.py` has what guesses are made from, and `guess.py` says which of
several is told.

To add one, yield it from a rule in the file of its kind: its words, and the result that would have
come out. Where a rule is in its list does not matter. A wrong answer proves it.
"""

from collections.abc import Iterable

from . import angles, exercise, order, places, seen
from .evidence import Evidence
from .guess import told_of

RULES = tuple(rule for kind in (seen, exercise, order, angles, places) for rule in kind.RULES)


def kind_of_mistake(cases: Iterable[Evidence]) -> str:
    """One line on the wrong cases, the plainest first: what it looks like, or that it does not."""
    return told_of(RULES, cases)
