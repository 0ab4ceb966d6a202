"""What each rung has to reach, and advice for a kernel that doesn't reach it.

A rung's targets are the instruments that its edit moves, and those moved before.

A limit on instructions is 5 % higher than our kernel's count by Triton 3.7.1 for sm_90, which is in
brackets, because other compilers' counts differ a little.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...compiler.launches import Launch
from ...records import QUIET
from ..counts import Counted

if TYPE_CHECKING:  # it imports Triton
    from ..trace import Event


@dataclass(frozen=True)
class Target:
    """A limit of one instrument."""

    instrument: str  # as `readings_of` calls it
    limit: float  # the number that `rule` compares with
    rule: str = "at most"  # 'at most', 'at least' or 'exactly'
    unit: str = ""  # after the number
    exact: bool = True  # the same with every compiler, so a stored output may contain it

    def met(self, readings: dict[str, float]) -> bool:
        """Whether the instrument has been read and is within the limit."""
        if self.instrument not in readings:
            return False
        value = readings[self.instrument]
        if self.rule == "exactly":
            return value == self.limit
        return value >= self.limit if self.rule == "at least" else value <= self.limit

    @property
    def words(self) -> str:
        """'at most 1 020 a warp'."""
        return f"{self.rule} {number(self.limit)}{self.unit}"


_bytes = partial(Target, "bytes requested", unit=" N")
IN_THE_SOURCE, IN_THE_THREADS = "sin/cos in the source", "sin/cos in the threads"
_evaluations = partial(Target, IN_THE_SOURCE, unit=" a pair")
_of_threads = partial(Target, IN_THE_THREADS, unit=" a pair")
EIGHT_ROWS = Target("programs", 32_768, "exactly")  # what rungs 2 to 7 have in common
IN_ORDER = Target("loads after a sine", 0)
WIDE = Target("narrowest load", 16, "at least", unit=" bytes")
_TILE = 2  # the rung whose kernel is the first one with a tile
_OF_MORE_INPUTS = (4, 7)  # rungs that can do more, which no instrument shows
_SHARED = (_bytes(2.25), _evaluations(0.5), EIGHT_ROWS)
_LATER = (_of_threads(0.5), *_SHARED, WIDE)

# In each row the instrument that the rung moves comes first.
TARGETS: dict[int, tuple[Target, ...]] = {
    1: (_bytes(5), _evaluations(4)),
    2: (_evaluations(0.5), _bytes(2.25), EIGHT_ROWS),
    3: (_of_threads(1), *_SHARED),
    4: (_of_threads(1), *_SHARED),
    5: _LATER,
    6: (IN_ORDER, Target("loads before a branch", 10, "at least"), *_LATER),
    7: (
        IN_ORDER,
        Target("loads before a branch", 10, "at least"),
        Target("instructions", 1020, unit=" a warp", exact=False),  # 965
        *_LATER,
    ),
}


def rungs_ahead(rung: int, readings: dict[str, float]) -> list[int]:
    """The later rungs whose edit a kernel has already: it meets what the edit moves.

    Sines and loads compare kernels that are a tile, so from rung 3 on it has to be one.
    """

    def is_there(other: int) -> bool:
        moves, tile = TARGETS[other][0], TARGETS[min(other, _TILE)]
        return moves not in TARGETS[rung] and all(one.met(readings) for one in (moves, *tile))

    later = (other for other in TARGETS if other > rung and other not in _OF_MORE_INPUTS)
    return [other for other in later if is_there(other)]


def number(value: float) -> str:
    """'2.25', '32 768', '28'."""
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}".replace(",", " ")
    return f"{value:.3g}"


def row(target: Target, readings: dict[str, float], missed: bool) -> str:
    """'  instructions             965 a warp      at most 1 020 a warp    yes'.

    What differs between compilers is left out of outputs that are compared. An instrument that
    reads machine code may not have been read.
    """
    if target.instrument not in readings:
        return f"  {target.instrument:24}{'':16}{target.words:22}not read here"
    value = readings[target.instrument]
    shows = target.exact or missed or QUIET not in os.environ
    shown = f"{number(value)}{target.unit}" if shows else ""
    answer = "no" if missed else "yes"
    return f"  {target.instrument:24}{shown:16}{target.words:22}{answer}"


# What a reading that misses its target looks like: the mistakes that readers make.

_FEW_ROWS = "a program has too few rows of its position: BLOCK_R"


def advice(instrument: str, readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    """The mistake that explains a missed target, as a question or a cause; '' if none is known."""
    return _ADVICE[instrument](readings, counted, launch)


def _about_bytes(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    size, loaded = counted.elements * counted.element_bytes, counted.loaded
    times = loaded.get("t", 0) / size
    if times > 1:
        return f"each element of t is loaded {times:.3g} times: once for itself, once as a partner?"
    if loaded.get("freqs", 0) >= 2 * size:
        return (
            "each row loads its own angles: load them once a program, "
            "and let [None, :] give them to all rows"
        )
    loads = Counter(event.of for event in counted.events if event.kind == "L")
    for name, count in loads.items():
        if count > 2:  # one of each half
            return f"a program loads {name} {count} times, where each half once would do"
    return _FEW_ROWS


def _about_evaluations(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    if sine := _of_the_whole_tile(counted):
        return f"a sine of the whole tile, {sine.of}, where a row of angles would do"
    if readings[IN_THE_SOURCE] >= 4:
        return "every row evaluates its own: a program needs several rows of one position"
    return _FEW_ROWS


def _about_programs(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    if readings["programs"] < EIGHT_ROWS.limit:
        return "more than 8 rows a program: stay at 8"
    starts = readings["programs"] / 1600
    return f"at 1600 a microsecond, they take {starts:.0f} us to start: more rows a program"


def _about_threads(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    if sine := _of_the_whole_tile(counted):
        return f"a sine of the whole tile, {sine.of}, where a row of angles would do"
    if launch.num_warps > 1:
        threads = 32 * launch.num_warps
        return f"{threads} threads hold the tile, and those of one row repeat another row's sines"
    for event in counted.events:
        if event.kind == "E" and _is_tile(event):
            return f"is the sine taken after the broadcast ({event.line})?"
    return ""


def _about_width(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    if launch.num_warps > 1:
        threads = 32 * launch.num_warps
        return f"{threads} threads share the angles of a row: how many has each? See num_warps"
    return (
        "16 bytes need neighbors in one thread, and an address that the compiler knows to be a "
        "multiple of 16: is a column counted in steps, or a mask's end no multiple of 16?"
    )


def _about_instructions(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    return "which line computes for each pair what a row or a position would do with once?"


def _about_order(readings: dict[str, float], counted: Counted, launch: Launch) -> str:
    sine = ""
    for event in counted.events:
        if event.kind == "E":
            sine = sine or event.line
        elif event.kind == "L" and sine:
            return f"{event.of} is loaded after a sine: move ({event.line}) before ({sine})"
    words = f"{launch.num_warps} warps share the loads: see num_warps"
    return words if launch.num_warps > 1 else ""


def _of_the_whole_tile(counted: Counted) -> "Event | None":
    """The first evaluation of a block with several rows."""
    sines = (event for event in counted.events if event.kind == "E" and _is_tile(event))
    return next((event for event in sines if not event.of.startswith("(1,")), None)


def _is_tile(evaluation: "Event") -> bool:
    """Whether an evaluation's block has two dimensions."""
    return "," in evaluation.of.strip("(),")


_ADVICE: dict[str, Callable] = {
    "bytes requested": _about_bytes,
    IN_THE_SOURCE: _about_evaluations,
    IN_THE_THREADS: _about_threads,
    "programs": _about_programs,
    "narrowest load": _about_width,
    "instructions": _about_instructions,
    "loads after a sine": _about_order,
    "loads before a branch": _about_order,
}
