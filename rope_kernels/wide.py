"""Tiles of whole rows side by side, for rows that are better aligned than their second halves.

`launch.choose_tile` asks here first, and pads all other rows. `wide_kernel.py` has a picture of a
line. Gains are in points of a copy's bandwidth, measured on one H200: see benchmarks/NOTES.md.
"""

import math
from typing import NamedTuple

from .tiles import MOST_EMPTY, Case, cdiv, next_power_of_2, warps_of

SECTOR_BYTES = 32  # what DRAM hands over at a time
# Share of a line that rows should fill; a line is made longer to get there. Rows of one position
# share cosines from line to line, but not within one, so their lines stay short.
FULL_OVER_ROWS = 2 / 3
FULL_OVER_POSITIONS = 0.85
MANY_POSITIONS = 8  # that tiles have at least, if they have more than one
MANY_LINES = 4  # of a position; fewer share their cosines too little
ENOUGH_LINES = 12  # of a position; with so many, empty places in its last tile don't matter


class WideTile(NamedTuple):
    """What a program takes: lines, one below the other, of rows that lie side by side."""

    positions_below: int  # one below the other, each with its own lines
    lines: int  # of a position
    columns: int  # of a line, a power of two
    num_warps: int
    side_by_side: int  # rows in a line
    over_positions: bool  # a line has one head at neighboring positions, not heads of one position

    @property
    def positions(self) -> int:
        return self.side_by_side if self.over_positions else self.positions_below

    @property
    def rows(self) -> int:
        """Of a position."""
        return self.lines if self.over_positions else self.lines * self.side_by_side


def choose_wide_tile(case: Case) -> WideTile | None:
    """The tile of a case whose whole rows are better aligned; None: padded rows are better."""
    if not case.takes_rows_side_by_side:
        return None
    # In bf16, rows of 72 are aligned to 16 bytes, and their second halves to 8. Rows of 96 and 160
    # are aligned to 32, and so are their halves.
    of_rows = math.gcd(SECTOR_BYTES, case.head_dim * case.element_bytes)
    of_halves = math.gcd(of_rows, case.start * case.element_bytes, case.half * case.element_bytes)
    # Heads of 72, 80, 88, 100, 112 and 120: those of 72, 88 and 120 gain 39 to 52 points.
    return choose_whole_rows(case) if of_rows > of_halves else None


def choose_whole_rows(case: Case) -> WideTile:
    """Lines of whole rows: rows are better aligned than their second halves."""
    if not case.packed and (case.rows_outer or _heads_fit_badly(case)):
        # Neighbors in memory belong side by side: in bhsd, positions. 32 heads of 72 in bshd leave
        # 4 of 36 places empty, and gain 10 points this way. Packed tokens would need a search each.
        return side_by_side(
            case,
            tile_bytes=4096,
            warp_bytes=2048,
            full=FULL_OVER_POSITIONS,
            over_positions=True,
            # In place, programs that share a cache line disturb each other: lines of 1024 bytes
            # gain 3 points over 512.
            least_bytes=1024 if case.inplace else 0,
        )
    tile_bytes, warp_bytes = 4096, 2048  # Heads of 72 have 95 % with two warps, 88 with one.
    if case.looks_up and case.width * case.element_bytes % 16 == 0:
        # A program that looks up positions starts late, and gets more to do; the more so if it then
        # reads a table. Not measured apart.
        tile_bytes, warp_bytes = 4096 if case.on_the_fly else 8192, 4096
    elif case.on_the_fly and _filled_by_whole_rows(case) < 3 / 4:
        # Each of two warps would have too few rows: heads of 88 have 93 % with one, 89 with two.
        warp_bytes = 4096
    elif case.packed:
        # Packed rows of 100 are read 8 bytes at a time: 2 KiB are 8 loads a thread already. Not
        # measured apart.
        tile_bytes = 2048
    return side_by_side(
        case,
        tile_bytes=tile_bytes,
        warp_bytes=warp_bytes,
        full=FULL_OVER_ROWS,
    )


def side_by_side(
    case: Case,
    *,
    tile_bytes: int,
    warp_bytes: int,
    full: float,
    over_positions: bool = False,
    least_bytes: int = 0,
) -> WideTile:
    """A tile of so many bytes: lines of whole rows.

    Rows fill the share `full` of a line, if a line can be long enough, and `least_bytes` of it.
    """
    width, element_bytes = case.width, case.element_bytes
    columns = line_of_rows(width, element_bytes, full)
    rows_per_line = max(columns, least_bytes // element_bytes) // width
    if not over_positions:
        rows_per_line = min(rows_per_line, case.most_rows)
    columns = next_power_of_2(rows_per_line * width)
    most = max(1, tile_bytes // (columns * element_bytes))
    if over_positions:
        positions, lines = 1, min(next_power_of_2(case.most_rows), most)
    else:
        lines = next_power_of_2(cdiv(case.most_rows, rows_per_line))
        if lines >= most:
            # Of the numbers with enough lines to share cosines, take the one that leaves fewest
            # places empty.
            sizes = [n for n in (most, most // 2, most // 4) if n >= MANY_LINES] or [most]
            lines = min(sizes, key=lambda n: case.places(n * rows_per_line))
        positions = most // lines
        if positions < MANY_POSITIONS:
            positions = 1
    return WideTile(
        positions_below=positions,
        lines=lines,
        columns=columns,
        num_warps=warps_of(positions * lines * columns * element_bytes, warp_bytes),
        side_by_side=rows_per_line,
        over_positions=over_positions,
    )


def line_of_rows(width: int, element_bytes: int, wanted: float) -> int:
    """Columns of a line, a power of two, of which rows of `width` columns fill the share `wanted`.

    A line is as long as what a warp loads at once, or two or four times as long. If none of the
    three is full enough, it is the fullest of them.
    """
    per_thread = math.gcd(16, width * element_bytes)
    least = max(32 * per_thread // element_bytes, next_power_of_2(width))
    sizes = least, 2 * least, 4 * least
    filled = {size: size // width * width / size for size in sizes}
    full_enough = [size for size in sizes if filled[size] >= wanted]
    return full_enough[0] if full_enough else max(sizes, key=filled.__getitem__)


def _whole_rows_per_line(case: Case) -> int:
    return line_of_rows(case.width, case.element_bytes, FULL_OVER_ROWS) // case.width


def _heads_fit_badly(case: Case) -> bool:
    """Whether whole heads of a position fill few lines, or leave many places of them empty."""
    rows_per_line = _whole_rows_per_line(case)
    lines, empty = case.most_rows / rows_per_line, case.empty(rows_per_line * MANY_LINES)
    return lines < MANY_LINES or (lines < ENOUGH_LINES and empty > MOST_EMPTY)


def _filled_by_whole_rows(case: Case) -> float:
    """Share of a line that whole rows of one position fill."""
    taken = min(_whole_rows_per_line(case), case.most_rows) * case.width
    return taken / next_power_of_2(taken)
