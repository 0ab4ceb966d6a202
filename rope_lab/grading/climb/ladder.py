"""The ladder: what each rung changed, what the instruments show of it, and how long it takes."""

import html
import math
import os
from functools import cache

from ...profiling.roofline import straight_line
from ...records import recorded
from ...rungs import RUNGS, SHAPE, kept, rung_of
from ...rungs.measured import COPY, EAGER, PACKAGE
from ...rungs.speed import QUIET, record
from ...steps.ledger import run_lines
from .launch import launches_of
from .readings import Readings, code_of
from .targets import number

_SMALL = (1, 2, 8, 256)  # what bytes and evaluations are counted with
_HEAD = ("rung", "notebook", "what changed", "bytes", "sin/cos", "I/P", "B/W", "time", "of a copy")
_WORDS = _HEAD.index("what changed")  # the column that is text


class Ladder:
    """A table that a page shows as one and a terminal as text.

    Attributes:
        rows: what is in each column, as text.
        source: where and when the times were recorded.
    """

    def __init__(self, upto: int) -> None:
        times = record()
        self.source = f"Times: {times.origin}" if times else "Times: not recorded yet."
        self.rows = [_row_of(EAGER, times)]
        self.rows += [_row_of_rung(n, times) for n in RUNGS if n <= upto]
        if upto == len(RUNGS):
            self.rows.append(_row_of(PACKAGE, times))
        self.rows.append(_row_of(COPY, times))

    def __repr__(self) -> str:
        table = [_HEAD, *self.rows]
        widths = [max(len(row[k]) for row in table) for k in range(len(_HEAD))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.source])

    def _repr_html_(self) -> str:
        def cells(row: tuple[str, ...], tag: str) -> str:
            aligned = [' style="text-align: left"' if k == _WORDS else "" for k in range(len(row))]
            return "".join(
                f"<{tag}{style}>{html.escape(cell)}</{tag}>"
                for style, cell in zip(aligned, row, strict=True)
            )

        rows = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        head = f"<thead><tr>{cells(_HEAD, 'th')}</tr></thead>"
        return f"<table>{head}<tbody>{rows}</tbody></table><p>{html.escape(self.source)}</p>"


def ladder(upto: int = len(RUNGS)) -> Ladder:
    """The climb as a table, from eager PyTorch to a copy.

    Bytes are those requested, in multiples of t's; sin/cos evaluations are for each pair. I/P is
    the time of all instructions on an H200, B/W that of all bytes, each once. Counts and code are
    those of our kernels, at the headline shape; times are the record's. A rung that the reader has
    climbed is marked.

    Args:
        upto: the last rung to show.

    Raises:
        ValueError: there is no such rung.
    """
    return Ladder(rung_of(upto).number)


@cache
def readings_of_ours(rung: int) -> Readings:
    """What the instruments show of our kernel: counted, and compiled for an H200."""
    rope = RUNGS[rung].module.my_rope
    (small,) = launches_of(rope, _SMALL, "cpu")
    constants = {name: value for name, value in small.options.items() if name != "num_warps"}
    ledger = run_lines(small.kernel, small.programs, *small.arguments, **constants)
    elements = math.prod(_SMALL)
    return Readings(
        requested=ledger.bytes / (2 * elements),
        evaluations=ledger.evaluations / (elements / 2),
        order="",
        **code_of(launches_of(rope)[0]),
    )


@cache
def time_of_bytes() -> float:
    """Microseconds for each byte of t, the result and the table once, at a copy's bandwidth."""
    copies = recorded("08/cold-and-warm")
    _, us_per_byte = straight_line([2 * size for size in copies["bytes"]], copies["cold"])
    s, _, _, d = SHAPE
    return (2 * 2 * math.prod(SHAPE) + 4 * s * d) * us_per_byte


def _row_of_rung(rung: int, times) -> tuple[str, ...]:
    readings = readings_of_ours(rung)
    mark = " ✓" if QUIET not in os.environ and rung in kept.climbed() else ""
    return (
        *(f"{rung}{mark}", RUNGS[rung].notebook, RUNGS[rung].change),
        *(f"{number(readings.requested)} N", number(readings.evaluations)),
        *(f"{readings.instruction_us:.0f} us", f"{time_of_bytes():.0f} us"),
        *_time(f"rung {rung}", times),
    )


def _row_of(case: str, times) -> tuple[str, ...]:
    words = {
        EAGER: "eager PyTorch: ten kernels",
        PACKAGE: "the package's kernel, with a table",
        COPY: "a copy of t",
    }
    requested = "2 N" if case == COPY else ""
    return ("", "", words[case], requested, "", "", "", *_time(case, times))


def _time(case: str, times) -> tuple[str, str]:
    if times is None:
        return "", ""
    us = times[case].median_us
    return f"{us:.0f} us", f"{times[COPY].median_us / us:.0%}"
