"""The facts of a call that its tile depends on, and how full its rows would make a block."""

import math
from functools import cache
from typing import NamedTuple

from ..call.rotation import Rotation
from ..machine.engine import triton_is_installed

MAX_WARPS = 8
SECTOR_BYTES = 32  # what DRAM hands over at a time
BYTES_PER_THREAD = 16  # at most, in one load
WARP_BYTES = 2048  # of a tile, for one warp: some kernels spill more
FULL_OVER_ROWS = 2 / 3  # of a block of rows of a position: in larger ones they share fewer cosines
FEW_ROWS = 2  # of a position; side by side, each row evaluates sines of its own
MANY_BLOCKS = 4  # of rows of a position; fewer share their cosines too little
ENOUGH_BLOCKS = 12  # from here on it no longer matters that places in the last tile are empty
MOST_EMPTY = 0.1


class Facts(NamedTuple):
    """What a tile depends on. No length of a sequence: a new length compiles no new kernel."""

    rows: int  # of q at one position, those of all batch entries if they share angles
    k_rows: int  # of k at one position; 0 without k
    head_dim: int  # elements of a row
    half: int  # pairs of a row
    tail: int  # elements of a row that are only copied; 0 in place
    start: int  # the first element that turns
    element_bytes: int  # of q and k
    rows_outer: bool  # the positions of a head are neighbors in memory, as in bhsd
    inplace: bool  # results overwrite what was read
    packed: bool  # a program searches `cu_seqlens` for the sequences of its tokens
    context_parallel: bool  # several ranks share a sequence, and a search divides
    looks_up_positions: bool  # in `cu_seqlens`, starts or ids, before it can find angles
    on_the_fly: bool  # angles are computed; no table is read
    takes_pairs: bool  # a block can hold pairs of several rows: half-split ones, without a tail
    takes_whole_rows: bool  # several half-split rows, better aligned than their second members

    @property
    def most_rows(self) -> int:
        """Rows of one position, of q or of k, whichever has more."""
        return max(self.rows, self.k_rows)

    @property
    def half_bytes(self) -> int:
        """Bytes of one member of every pair of a row."""
        return self.half * self.element_bytes

    @property
    def width(self) -> int:
        """Elements of a row that a program reads."""
        return 2 * self.half + self.tail

    @property
    def width_bytes(self) -> int:
        """Bytes of a row that a program reads."""
        return self.width * self.element_bytes

    @property
    def padded_half(self) -> int:
        """Pairs of a row, rounded up to a power of two."""
        return next_power_of_2(self.half)

    @property
    def padded_tail(self) -> int:
        """The tail, rounded up to a power of two."""
        return next_power_of_2(self.tail) if self.tail else 0

    @property
    def padded_width(self) -> int:
        """Elements that a padded row takes in a tile: its padded parts, rounded up together."""
        return next_power_of_2(2 * self.padded_half + self.padded_tail)

    @property
    def filled_by_pairs(self) -> float:
        """Share of the padded pairs of a row that are pairs."""
        return self.half / self.padded_half

    @property
    def filled_by_row(self) -> float:
        """Share of a padded row that is no padding."""
        return self.width / self.padded_width

    @property
    def fills_its_block(self) -> bool:
        """Whether a row needs no padding and has no tail."""
        return self.half == self.padded_half and self.tail == 0

    @property
    def rows_fit_badly(self) -> bool:
        """Whether whole rows of a position fill few blocks, or leave many places of them empty."""
        side = self._rows_side_by_side
        blocks, empty = self.most_rows / side, self.empty(side * MANY_BLOCKS)
        return blocks < MANY_BLOCKS or (blocks < ENOUGH_BLOCKS and empty > MOST_EMPTY)

    def empty(self, tile_rows: int) -> float:
        """Share of the places for rows that stay empty in tiles of so many rows of a position."""
        rows = self.rows, self.k_rows
        return 1 - sum(rows) / places(rows, tile_rows)

    @property
    def filled_by_whole_rows(self) -> float:
        """Share of a block that whole rows of one position fill."""
        taken = min(self._rows_side_by_side, self.most_rows) * self.width
        return taken / next_power_of_2(taken)

    @property
    def _rows_side_by_side(self) -> int:
        return block_of_rows(self.width, self.element_bytes, FULL_OVER_ROWS) // self.width


def facts_of(
    rotation: Rotation,
    head_dim: int,
    rows: tuple[int, int],
    element_bytes: int,
    *,
    rows_outer: bool,
    inplace: bool = False,
) -> Facts:
    """The facts of a call; `rows` are those of q and of k at one position."""
    half, start = rotation.rotary_dim // 2, rotation.rotary_start
    tail = 0 if inplace else head_dim - 2 * half
    several = max(rows) > FEW_ROWS and not any(rotation.pairings)
    largest = 4 * 2 * next_power_of_2(half) * element_bytes  # see `block_of_rows`
    fits = largest <= MAX_WARPS * WARP_BYTES  # or a thread spills up to 18 KB
    of_rows = math.gcd(SECTOR_BYTES, head_dim * element_bytes)
    of_pairs = math.gcd(of_rows, start * element_bytes, half * element_bytes)
    return Facts(
        rows=rows[0],
        k_rows=rows[1],
        head_dim=head_dim,
        half=half,
        tail=tail,
        start=start,
        element_bytes=element_bytes,
        rows_outer=rows_outer,
        inplace=inplace,
        packed=rotation.cu_seqlens is not None,
        context_parallel=rotation.cp_size > 1,
        looks_up_positions=rotation.looks_up_positions,
        on_the_fly=rotation.on_the_fly,
        takes_pairs=several and tail == 0 and fits,
        takes_whole_rows=several and of_pairs < of_rows,
    )


@cache
def lanes_follow_positions() -> bool:
    """Whether neighboring lanes take neighboring positions of a tile, or neighboring rows of one.

    Elements are contiguous along a row alone. Of the two other dimensions, Triton deals out the
    first one first until 3.6, and the last one first from 3.7 on.
    """
    if not triton_is_installed():
        return False
    import triton  # here, as a plan may be made without it

    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) < (3, 7)


def block_of_rows(width: int, element_bytes: int, wanted: float) -> int:
    """Elements, a power of two, of which whole rows of `width` fill the share `wanted`.

    No less than what a warp loads at once, and at most four times as much; of these, if none is
    full enough, the fullest.
    """
    per_thread = math.gcd(BYTES_PER_THREAD, width * element_bytes)
    least = max(32 * per_thread // element_bytes, next_power_of_2(width))
    sizes = least, 2 * least, 4 * least
    filled = [size // width * width / size for size in sizes]
    for size, share in zip(sizes, filled, strict=True):
        if share >= wanted:
            return size
    return sizes[filled.index(max(filled))]


def places(rows: tuple[int, int], tile_rows: int) -> int:
    """Rows that the tiles of q and of k have room for."""
    return sum(-(-n // tile_rows) * tile_rows for n in rows)


def next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()
