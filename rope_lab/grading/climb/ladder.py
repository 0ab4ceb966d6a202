"""The ladder: what each rung changed, what the instruments show of it, and how long it takes."""

import html
import math
import os
from functools import cache

from ...profiling.roofline import straight_line
from ...records import QUIET, Measurement, recorded
from ...rungs import RUNGS, SHAPE, kept, rung_of
from ...rungs.measured import COPY, EAGER, KEY, PACKAGE
from .targets import number

_PROMISE = ("rung", "notebook", "what changed", "time", "of a copy")
_COUNTS = ("bytes", "sin/cos", "I/P", "B/W")  # these answer what the exercises ask


class Ladder:
    """A table that a page shows as one and a terminal as text.

    Attributes:
        head: the names of its columns.
        rows: what is in each of them, as text.
        source: where and when the times were recorded.
    """

    def __init__(self, upto: int | None) -> None:
        times = recorded(KEY)
        self.source = f"Times: {times.origin}"
        shown = [rung for rung in RUNGS if upto is None or rung <= upto]
        cases = [EAGER, *(f"rung {rung}" for rung in shown)]
        cases += [PACKAGE, COPY] if len(shown) == len(RUNGS) else [COPY]
        self.head = _PROMISE if upto is None else (*_PROMISE[:3], *_COUNTS, *_PROMISE[3:])
        rows = [_cells(case, times) for case in cases]
        if upto is not None:
            rows = [row | _counts(case) for row, case in zip(rows, cases, strict=True)]
        self.rows = [tuple(row[name] for name in self.head) for row in rows]

    def __repr__(self) -> str:
        table = [self.head, *self.rows]
        widths = [max(len(row[k]) for row in table) for k in range(len(self.head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.source])

    def _repr_html_(self) -> str:
        def cells(row: tuple[str, ...], tag: str) -> str:
            sides = ["left" if name == "what changed" else "right" for name in self.head]
            return "".join(
                f'<{tag} style="text-align: {side}; padding: 0 0.6em">{html.escape(cell)}</{tag}>'
                for side, cell in zip(sides, row, strict=True)
            )

        rows = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        head = f"<thead><tr>{cells(self.head, 'th')}</tr></thead>"
        return f"<table>{head}<tbody>{rows}</tbody></table><p>{html.escape(self.source)}</p>"


def ladder(upto: int | None = None) -> Ladder:
    """The climb as a table, from eager PyTorch to a copy.

    The counts are those of our kernels, at the headline shape: bytes requested, in multiples of
    t's; sin/cos evaluations for each pair, as the source has them; I/P, the time of all
    instructions on an H200; B/W, that of the bytes that must move once. Times are the record's. A
    rung that the reader has climbed is marked.

    Args:
        upto: the last rung to show, with its counts; None for all of them without.

    Raises:
        ValueError: there is no such rung.
    """
    return Ladder(None if upto is None else rung_of(upto).number)


@cache
def time_of_bytes() -> float:
    """Microseconds for each byte of t, the result and the table once, at a copy's bandwidth."""
    copies = recorded("08/cold-and-warm")
    _, us_per_byte = straight_line([2 * size for size in copies["bytes"]], copies["cold"])
    s, _, _, d = SHAPE
    return (2 * 2 * math.prod(SHAPE) + 4 * s * d) * us_per_byte


def _cells(case: str, times: Measurement) -> dict[str, str]:
    """The row of a case, by the names of its columns."""
    us, copy = times[case].median_us, times[COPY].median_us
    cells = dict.fromkeys((*_PROMISE, *_COUNTS), "")
    cells |= {"time": f"{us:.0f} us", "of a copy": f"{copy / us:.0%}"}
    if not case.startswith("rung "):
        words = {
            EAGER: "eager PyTorch: ten kernels",
            PACKAGE: "the package's kernel, with a table",
            COPY: "a copy of t",
        }
        return cells | {"what changed": words[case]}
    rung = int(case.removeprefix("rung "))
    mark = " ✓" if QUIET not in os.environ and rung in kept.climbed() else ""
    of_rung = {"notebook": RUNGS[rung].notebook, "what changed": RUNGS[rung].change}
    return cells | {"rung": f"{rung}{mark}"} | of_rung


def _counts(case: str) -> dict[str, str]:
    """What the instruments show of a case."""
    if not case.startswith("rung "):
        return {"bytes": "2 N" if case == COPY else ""}
    rung = RUNGS[int(case.removeprefix("rung "))]
    return {
        "bytes": f"{number(rung.requested)} N",
        "sin/cos": number(rung.evaluations),
        "I/P": f"{rung.instruction_us:.0f} us",
        "B/W": f"{time_of_bytes():.0f} us",
    }
