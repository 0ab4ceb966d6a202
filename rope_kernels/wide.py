"""Tiles of rows that fill no power of two, or whose halves are worse aligned than the whole row.

`launch.choose_tile` asks here first, and pads what no rule takes. `wide_kernel.py` has pictures of
lines. Gains are in points of a copy's bandwidth, measured on one H200: see benchmarks/NOTES.md.
"""

import math
from typing import NamedTuple

from .tiles import MOST_EMPTY, Case, cdiv, next_power_of_2, warps_of

SECTOR_BYTES = 32  # what DRAM hands over at a time
# Share of a line that rows should fill; a line is made longer to get there. Rows of one position
# share cosines from line to line, but not within one, so their lines stay short.
FULL_OVER_ROWS = 2 / 3
FULL_OVER_POSITIONS = 0.85
MANY_POSITIONS = 8  # that tiles of whole rows have at least, if they have more than one
MANY_LINES = 4  # of a position; fewer share their cosines too little
ENOUGH_LINES = 12  # of a position; with so many, empty places in its last tile don't matter


class WideTile(NamedTuple):
    """What a program takes: lines, one below the other, of rows that lie side by side."""

    positions_below: int  # one below the other, each with its own lines
    lines: int  # of a position
    columns: int  # of a line, a power of two: pairs, or elements of whole rows
    num_warps: int
    side_by_side: int  # rows in a line
    over_positions: bool  # a line has one head at neighboring positions, not heads of one position
    whole_rows: bool  # a column is an element, not a pair

    @property
    def positions(self) -> int:
        return self.side_by_side if self.over_positions else self.positions_below

    @property
    def rows(self) -> int:
        """Of a position."""
        return self.lines if self.over_positions else self.lines * self.side_by_side

    @property
    def arguments(self) -> dict[str, int | bool]:
        """The arguments that tell it to `wide_kernel`."""
        return {
            "POSITIONS": self.positions_below,
            "LINES": self.lines,
            "COLUMNS": self.columns,
            "SIDE_BY_SIDE": self.side_by_side,
            "OVER_POSITIONS": self.over_positions,
            "WHOLE_ROWS": self.whole_rows,
        }


def choose_wide_tile(case: Case) -> WideTile | None:
    """The tile of the first rule that takes the case; None: padded rows are better."""
    if not case.takes_rows_side_by_side:
        return None
    # In bf16, rows of 72 are aligned to 16 bytes, and their second halves to 8. Rows of 96 and 160
    # are aligned to 32, and so are their halves.
    half_bytes = case.half * case.element_bytes
    of_rows = math.gcd(SECTOR_BYTES, case.head_dim * case.element_bytes)
    of_halves = math.gcd(of_rows, case.start * case.element_bytes, half_bytes)
    rows_are_better_aligned = of_rows > of_halves
    pairs_fit = case.tail == 0 and case.fits_in_registers
    # A packed token waits longest, so more bytes in flight count for more than wider loads.
    pairs_are_as_good = not rows_are_better_aligned or (case.packed and half_bytes % 8 == 0)
    # Padding would take a third of the registers. Heads of 160 in bshd gain 1 or 2 points, packed
    # ones of 72 and of 160 8 to 15.
    is_sparse = case.filled_by_pairs < 2 / 3 and not case.rows_outer
    if pairs_fit and pairs_are_as_good and is_sparse:
        # What the two sizes gain was not measured apart.
        return pairs_of_heads(case, 4096 if half_bytes % 32 == 0 else 2048)
    # Heads of 72, 80, 88, 100, 112 and 120: those of 72, 88 and 120 gain 39 to 52 points.
    if rows_are_better_aligned:
        return choose_whole_rows(case)
    # Heads of 96 and 192 in bhsd gain a point. In place they would lose 5.
    is_dense_copy = not (case.packed or case.inplace)
    if pairs_fit and case.rows_outer and is_dense_copy and case.filled_by_pairs < 0.8:
        return pairs_of_positions(case)
    return None


def pairs_of_heads(case: Case, tile_bytes: int) -> WideTile:
    """Lines of the pairs of several heads of a position."""
    return side_by_side(case, tile_bytes=tile_bytes, warp_bytes=2048, full=FULL_OVER_POSITIONS)


def pairs_of_positions(case: Case) -> WideTile:
    """Lines of the pairs of a head at several positions, which are neighbors in memory."""
    return side_by_side(
        case,
        tile_bytes=4096,
        warp_bytes=2048,
        full=FULL_OVER_POSITIONS,
        over_positions=True,
    )


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
            whole_rows=True,
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
        whole_rows=True,
    )


def side_by_side(
    case: Case,
    *,
    tile_bytes: int,
    warp_bytes: int,
    full: float,
    over_positions: bool = False,
    whole_rows: bool = False,
    least_bytes: int = 0,
) -> WideTile:
    """A tile of so many bytes: lines of whole rows, or of their pairs.

    Rows fill the share `full` of a line, if a line can be long enough, and `least_bytes` of it.
    """
    width, column_bytes = case.half, 2 * case.element_bytes
    if whole_rows:
        width, column_bytes = case.width, case.element_bytes
    columns = line_of_rows(width, case.element_bytes, full)
    rows_per_line = max(columns, least_bytes // column_bytes) // width
    if not over_positions:
        rows_per_line = min(rows_per_line, case.most_rows)
    columns = next_power_of_2(rows_per_line * width)
    most = max(1, tile_bytes // (columns * column_bytes))
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
        if whole_rows and positions < MANY_POSITIONS:
            positions = 1
    return WideTile(
        positions_below=positions,
        lines=lines,
        columns=columns,
        num_warps=warps_of(positions * lines * columns * column_bytes, warp_bytes),
        side_by_side=rows_per_line,
        over_positions=over_positions,
        whole_rows=whole_rows,
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
