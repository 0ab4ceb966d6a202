"""What each rung has to reach: the instruments that its edit moves, and those moved before.

Our kernels' readings, compiled by Triton 3.7.1 for sm_90 at the headline shape, are in brackets.
Limits of instructions leave them 5 %, because other compilers count a little differently.
"""

import os
from dataclasses import dataclass
from functools import partial

from ...records import QUIET


@dataclass(frozen=True)
class Target:
    """A limit of one instrument."""

    instrument: str  # as `readings_of` calls it
    limit: float  # the number that `rule` is about
    rule: str = "at most"  # 'at most', 'at least' or 'exactly'
    unit: str = ""  # after the number
    exact: bool = True  # the same with every compiler, so a compared verdict may print it

    def met(self, readings: dict[str, float]) -> bool:
        value = readings[self.instrument]
        if self.rule == "exactly":
            return value == self.limit
        return value >= self.limit if self.rule == "at least" else value <= self.limit

    @property
    def words(self) -> str:
        """'at most 900 a warp'."""
        return f"{self.rule} {number(self.limit)}{self.unit}"


_bytes = partial(Target, "bytes requested", unit=" N")
_evaluations = partial(Target, "sin/cos evaluations", unit=" a pair")
EIGHT_ROWS = Target("programs", 32_768, "exactly")  # what rungs 3 to 7 have in common
IN_ORDER = Target("loads after a sine", 0)
WIDE = Target("narrowest load", 16, "at least", unit=" bytes")
_TILE = 3  # the rung whose kernel is the first one with a tile
_LATER = (_bytes(2.25), _evaluations(0.5), EIGHT_ROWS, WIDE)

# In each row the instrument that the rung moves comes first.
TARGETS: dict[int, tuple[Target, ...]] = {
    1: (_bytes(5), _evaluations(4)),
    2: (_bytes(4), _evaluations(4)),
    3: (_evaluations(0.5), _bytes(2.25), EIGHT_ROWS),
    4: (_bytes(2.25), _evaluations(0.5), EIGHT_ROWS),
    5: (  # 38.7 us
        *(WIDE, Target("instruction time", 42, unit=" us", exact=False)),
        *(_bytes(2.25), _evaluations(0.5), EIGHT_ROWS),
    ),
    6: (Target("instructions", 900, unit=" a warp", exact=False), *_LATER),  # 830
    7: (
        IN_ORDER,
        Target("loads before a branch", 10, "at least"),
        Target("instructions", 900, unit=" a warp", exact=False),  # 847
        *_LATER,
    ),
}


def rungs_ahead(rung: int, readings: dict[str, float]) -> list[int]:
    """The rungs above this one that a kernel has climbed already: what they move has moved.

    Loads and instructions compare kernels that are a tile, so from rung 5 on it has to be one.
    """

    def is_there(other: int) -> bool:
        moves, tile = TARGETS[other][0], TARGETS[min(other, _TILE)]
        return moves not in TARGETS[rung] and all(one.met(readings) for one in (moves, *tile))

    return [other for other in TARGETS if other > rung and is_there(other)]


def number(value: float) -> str:
    """'2.25', '32 768', '28'."""
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}".replace(",", " ")
    return f"{value:.3g}"


def row(target: Target, readings: dict[str, float], missed: bool) -> str:
    """'  instructions           830 a warp      at most 900 a warp      yes'.

    What another compiler counts otherwise is left out where outputs are compared.
    """
    value = readings[target.instrument]
    shows = target.exact or missed or QUIET not in os.environ
    shown = f"{number(value)}{target.unit}" if shows else ""
    answer = "no" if missed else "yes"
    return f"  {target.instrument:22}{shown:16}{target.words:22}{answer}"
