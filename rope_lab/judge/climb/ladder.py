"""The ladder: what each rung changed, what the instruments show of it, and how long it takes."""

import html
import os
from dataclasses import dataclass

from ...records import QUIET, Measurement, recorded
from ...rungs import RUNGS, kept, rung_of
from ...rungs.measured import COPY, EAGER, KEY
from .targets import number

# What the whole ladder says about the rungs whose edit the reader has to find.
TO_FIND = {
    3: {"what changed": "for you to find: one number"},
    5: {"what changed": "for you to find, in a layout"},
    6: {"what changed": "for you to find, in the order of instructions"},
}

_COUNTS = ("bytes", "sin/cos", "in threads")


@dataclass(frozen=True)
class Ladder:
    """A table: HTML in a notebook, text in a terminal."""

    head: tuple[str, ...]  # the names of its columns
    rows: list[tuple[str, ...]]  # what is in each of them, as text
    source: str  # where and when the times were recorded

    def __repr__(self) -> str:
        table = [self.head, *self.rows]
        widths = [max(len(row[k]) for row in table) for k in range(len(self.head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.source]).rstrip()

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
    """The rungs as a table, from eager PyTorch to a copy.

    The counts are those of our kernels, at the headline shape: bytes requested, in multiples of
    t's; sin/cos evaluations per pair, in the source and in the threads of an H200. Times are from
    the record. Your finished rungs are marked. The whole ladder is shown before the exercises, so
    it doesn't name the edits to find.

    Args:
        upto: the last rung to show, with its counts; None: all rungs, without counts.

    Raises:
        ValueError: there is no such rung.
    """
    last = len(RUNGS) if upto is None else rung_of(upto).number
    times = recorded(KEY)
    rows = [{"what changed": "eager PyTorch: ten kernels"} | _time(EAGER, times)]
    to_find = TO_FIND if upto is None else {}
    rows += [_row(rung, times) | to_find.get(rung, {}) for rung in RUNGS if rung <= last]
    rows.append({"what changed": "a copy of t", "bytes": "2 N"} | _time(COPY, times))
    counts = () if upto is None else _COUNTS  # exercises ask for them
    head = ("rung", "notebook", "what changed", *counts, "time", "of a copy")
    cells = [tuple(row.get(name, "") for name in head) for row in rows]
    return Ladder(head, cells, f"Times: {times.origin}")


def row_of(rung: int) -> Ladder:
    """The table's head and the rung's row, with the counts."""
    whole = ladder(rung)
    place = whole.head.index("rung")
    rows = [row for row in whole.rows if row[place].startswith(str(rung))]
    return Ladder(whole.head, rows, source="")


def _row(number_of_rung: int, times: Measurement) -> dict[str, str]:
    """What a rung changed, what the instruments show of it, and its time."""
    rung = RUNGS[number_of_rung]
    mark = " ✓" if QUIET not in os.environ and rung.number in kept.climbed() else ""
    return {
        "rung": f"{rung.number}{mark}",
        "notebook": rung.notebook,
        "what changed": rung.change,
        "bytes": f"{number(rung.requested)} N",
        "sin/cos": number(rung.evaluations),
        "in threads": number(rung.evaluations_of_threads),
    } | _time(f"rung {rung.number}", times)


def _time(case: str, times: Measurement) -> dict[str, str]:
    us, copy = times[case].median_us, times[COPY].median_us
    return {"time": f"{us:.1f} us", "of a copy": f"{copy / us:.1%}"}
