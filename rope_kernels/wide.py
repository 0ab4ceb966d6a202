"""Tiles of rows that fill no power of two, or whose halves are worse aligned than they are.

`launch.choose_tile` asks here first. What no rule takes is padded.
"""

import math
from typing import NamedTuple

from .tiles import MOST_EMPTY, Case, next_power_of_2, warps_of

SECTOR_BYTES = 32  # what DRAM hands over at a time
FULL_OVER_ROWS = 2 / 3  # of a line of rows of a position: in longer ones they share fewer cosines
FULL_OVER_POSITIONS = 0.85
MANY_POSITIONS = 8  # of whole rows; fewer do not share a tile
MANY_LINES, ENOUGH_LINES = 4, 12  # of a position; with these they share cosines, and fill a tile


class WideTile(NamedTuple):
    """What a program takes: lines, one below the other, of rows that lie side by side."""

    positions_below: int  # each with its own lines
    lines: int  # of a position
    columns: int  # of a line: pairs, or elements of whole rows
    num_warps: int
    side_by_side: int  # rows in a line
    over_positions: bool  # those are one head at neighboring positions, not heads of one
    whole_rows: bool

    @property
    def positions(self) -> int:
        return self.side_by_side if self.over_positions else self.positions_below

    @property
    def rows(self) -> int:
        """Of a position."""
        return self.lines if self.over_positions else self.lines * self.side_by_side

    @property
    def arguments(self) -> dict[str, int | bool]:
        """By which `wide_kernel` knows of it."""
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
    half_bytes = case.half * case.element_bytes
    of_rows = math.gcd(SECTOR_BYTES, case.head_dim * case.element_bytes)
    of_halves = math.gcd(of_rows, case.start * case.element_bytes, half_bytes)
    rows_are_better_aligned = of_rows > of_halves
    pairs_fit = case.tail == 0 and case.fits_in_registers
    pairs_are_as_good = not rows_are_better_aligned or (case.packed and half_bytes % 8 == 0)
    # Padding would take a third of the registers.
    is_sparse = case.filled_by_pairs < 2 / 3 and not case.rows_outer
    if pairs_fit and pairs_are_as_good and is_sparse:
        return pairs_of_heads(case, 4096 if half_bytes % 32 == 0 else 2048)
    if rows_are_better_aligned:
        return choose_whole_rows(case)
    # Head dimensions of 96 and 192 gain a point; in place they lose 5.
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
        return side_by_side(
            case,
            tile_bytes=4096,
            warp_bytes=2048,
            full=FULL_OVER_POSITIONS,
            over_positions=True,
            whole_rows=True,
            # Programs that share a cache line disturb each other in place: lines of 1024 bytes
            # gain 3 points over 512.
            least_bytes=1024 if case.inplace else 0,
        )
    tile_bytes, warp_bytes = 4096, 2048
    if case.looks_up and case.width * case.element_bytes % 16 == 0:
        # A program starts late, and gets more to do.
        tile_bytes, warp_bytes = 4096 if case.on_the_fly else 8192, 4096
    elif case.on_the_fly and _filled_by_whole_rows(case) < 3 / 4:
        warp_bytes = 4096  # each of two warps would have too few rows
    elif case.packed:
        tile_bytes = 2048  # of rows of 100, read 8 bytes at a time: 8 loads a thread already
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
    """Lines of whole rows or of their pairs, at least `full` of rows and of `least_bytes`."""
    width, column_bytes = case.half, 2 * case.element_bytes
    if whole_rows:
        width, column_bytes = case.width, case.element_bytes
    columns = line_of_rows(width, case.element_bytes, full)
    beside = max(columns, least_bytes // column_bytes) // width
    if not over_positions:
        beside = min(beside, case.most_rows)
    columns = next_power_of_2(beside * width)
    most = max(1, tile_bytes // (columns * column_bytes))
    if over_positions:
        positions, lines = 1, min(next_power_of_2(case.most_rows), most)
    else:
        lines = next_power_of_2(-(-case.most_rows // beside))
        if lines >= most:  # few empty places, yet enough rows to share cosines
            sizes = [n for n in (most, most // 2, most // 4) if n >= MANY_LINES] or [most]
            lines = min(sizes, key=lambda n: case.places(n * beside))
        positions = most // lines
        if whole_rows and positions < MANY_POSITIONS:
            positions = 1
    return WideTile(
        positions_below=positions,
        lines=lines,
        columns=columns,
        num_warps=warps_of(positions * lines * columns * column_bytes, warp_bytes),
        side_by_side=beside,
        over_positions=over_positions,
        whole_rows=whole_rows,
    )


def line_of_rows(width: int, element_bytes: int, wanted: float) -> int:
    """Columns, a power of two, of which rows of `width` fill the share `wanted`.

    No less than what a warp loads at once, and at most four times as much; of these, if none is
    full enough, the fullest.
    """
    per_thread = math.gcd(16, width * element_bytes)
    least = max(32 * per_thread // element_bytes, next_power_of_2(width))
    sizes = least, 2 * least, 4 * least
    filled = {size: size // width * width / size for size in sizes}
    full_enough = [size for size in sizes if filled[size] >= wanted]
    return full_enough[0] if full_enough else max(sizes, key=filled.__getitem__)


def _whole_rows_beside(case: Case) -> int:
    return line_of_rows(case.width, case.element_bytes, FULL_OVER_ROWS) // case.width


def _heads_fit_badly(case: Case) -> bool:
    """Whether whole heads of a position fill few lines, or leave many places of them empty."""
    beside = _whole_rows_beside(case)
    lines, empty = case.most_rows / beside, case.empty(beside * MANY_LINES)
    return lines < MANY_LINES or (lines < ENOUGH_LINES and empty > MOST_EMPTY)


def _filled_by_whole_rows(case: Case) -> float:
    taken = min(_whole_rows_beside(case), case.most_rows) * case.width
    return taken / next_power_of_2(taken)
