"""Is a reader's RMSNorm right, and does it keep enough bytes in flight, for short rows and long?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from ...rungs.speed import speed_here
from ...steps.row_norm import LENGTHS, rows
from ..exercises.notebook_07 import rms_norm_of_rows
from ..judge import interrupted_in_a_sentence, judged
from ..spec import Case
from ..verdict import NOT_YET, Verdict
from .check_rung import said_instead
from .launch import Launch, launches_of
from .readings import narrowest_load, refusal
from .targets import NAMES, Target, row

PROBE = Case("the probe", {"s": 4, "d": 4096}, torch.bfloat16)
TARGETS = (
    Target("loaded", 1, unit=" N"),
    Target("spilled", 0, unit=" bytes"),
    Target("in_flight", 25, "at least", unit=" KiB", exact=False),  # 62.5 and 64
    Target("narrowest_load", 16, "at least", unit=" bytes"),
)
THROUGH_A_LOOP = "what is in flight can't be counted through a loop; take a row as one block"
ADVICE = {
    "loaded": "x is loaded again for the product: the program has its row in registers already",
    "narrowest_load": (
        "an address or a mask that the compiler doesn't know to be a multiple of 16 bytes, or more "
        "lanes than a row has pieces of 16 bytes"
    ),
    "in_flight": (
        "a program has one row in flight; if it has fewer warps, an SM holds more programs"
    ),
    "spilled": "a lane holds more elements than it has registers for: more warps",
}


@dataclass(frozen=True)
class RowReadings:
    """What the instruments show for rows of one length, on an H200.

    Attributes:
        loaded: bytes of x that programs load, in multiples of its size.
        narrowest_load: bytes.
        in_flight: KiB of x that the programs of an SM request before their first sum.
        spilled: bytes of a thread that no register holds, stored and loaded.
    """

    loaded: float
    narrowest_load: int
    in_flight: float
    spilled: int


@interrupted_in_a_sentence
def check_norm(candidate: Callable) -> Verdict:
    """Judge an RMSNorm: its values as `check_exercise` does, then its launches for an H200.

    Args:
        candidate: `rms_norm(x, weight)` for x (n, d), contiguous, and weight (d,).
    """
    verdict = judged(candidate, rms_norm_of_rows, probe=PROBE)
    if not verdict:
        return verdict
    readings = {}
    try:
        for length in LENGTHS:
            x, weight = rows(length, "meta")
            launches = launches_of(partial(candidate, x, weight))
            if refused := refusal(launches, f"rows of {length}", THROUGH_A_LOOP):
                return replace(
                    verdict, state=NOT_YET, reason=f"the values are right, but {refused}"
                )
            readings[length] = _readings(verdict.counted, launches[0], x)
    except (Exception, SystemExit) as error:  # whatever a reader's function may raise
        return said_instead(error, verdict)
    return _with_instruments(candidate, verdict, readings)


def _readings(counted: dict, launch: Launch, x: Tensor) -> RowReadings:
    code = launch.compiled()
    return RowReadings(
        loaded=counted["loaded"].get("x", 0) / (counted["elements"] * counted["element_bytes"]),
        narrowest_load=narrowest_load(code),
        in_flight=code.programs_at_a_time * x.nbytes / launch.programs / 1024,
        spilled=code.spilled,
    )


def _with_instruments(
    candidate: Callable, verdict: Verdict, readings: dict[int, RowReadings]
) -> Verdict:
    """The verdict of the instruments on a kernel whose values are right."""
    table, missed = [], []
    for length, shown in readings.items():
        table.append(f"rows of {length}")
        for target in TARGETS:
            met = target.met(shown)
            table.append(row(target, shown, not met))
            missed += [] if met else [(length, target)]
    lines = "\n".join(table)
    long = partial(rows, LENGTHS[-1])
    if not missed:
        reason = f"{len(verdict.right_cases)} cases\n{lines}"
        return replace(verdict, reason=reason, speed=speed_here(candidate, make=long))
    length, first = missed[0]
    name = NAMES[first.instrument]
    return replace(
        verdict,
        state=NOT_YET,
        reason=f"the values are right; rows of {length} want {name} {first.words}\n{lines}",
        looks_like=ADVICE[first.instrument],
        speed=speed_here(candidate, explained_by=name, make=long),
    )
