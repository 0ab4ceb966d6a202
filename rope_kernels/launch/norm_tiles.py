"""From a call to the tile of a norm: how many rows, in how many registers, in which order.

`tuning.py` has the tables that choose.
"""

from functools import cache

import torch

from ..call.rotation import Rotation
from ..machine.engine import Engine, triton_is_installed
from .rope_tiles import Work, tile_of_padded_rows
from .tile_facts import MAX_WARPS, WARP_BYTES, Facts, next_power_of_2
from .tuning import (
    ACROSS_ROWS,
    ALONG_POSITIONS,
    NORM_FORWARD,
    PADDED_ROWS,
    ForwardTile,
    first_match,
)

MOST_EMPTY = 0.1  # share of the places for rows, as long as a tile has more than LEAST_ROWS
LEAST_ROWS = 2  # of a position; a backward loses 5 to 15 points with one
PAIRS_WITH_A_LIMIT = 64, 128  # of registers: of a row, padded to a power of two


def backward_tile(rotation: Rotation, facts: Facts) -> Work:
    """The backward's tile: padded rows with few empty places, as much as a warp can hold."""
    wanted = first_match(PADDED_ROWS, facts)
    wanted = wanted._replace(most_empty=MOST_EMPTY, least_rows=LEAST_ROWS)
    return in_registers(tile_of_padded_rows(rotation, facts, wanted), facts.element_bytes)


def forward_tile(rotation: Rotation, facts: Facts) -> Work:
    """The forward's tile, so many times the backward's; in bhsd, the rotation's."""
    work, wanted = backward_tile(rotation, facts), wanted_forward(facts)
    if facts.rows_outer:  # it takes more positions below, and would take too few rows
        padded = tile_of_padded_rows(rotation, facts, first_match(PADDED_ROWS, facts))
        work = in_registers(padded, facts.element_bytes)
    rows_of_all = work.positions * work.rows * wanted.bytes
    positions = min(rows_of_all // wanted.warps, max(work.positions, wanted.positions))
    rows = min(work.rows, rows_of_all // positions)
    tile = work.tile._replace(positions=rows_of_all // rows, rows=rows)
    return work._replace(tile=tile, num_warps=min(MAX_WARPS, work.num_warps * wanted.warps))


def wanted_forward(facts: Facts) -> ForwardTile:
    """The forward's row of the table, for the order of lanes of this Triton."""
    lanes = ALONG_POSITIONS if lanes_follow_positions() else ACROSS_ROWS
    return first_match(NORM_FORWARD, facts, lanes)


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


def in_registers(work: Work, element_bytes: int) -> Work:
    """The tile, halved until a warp has no more than WARP_BYTES of it, the empty places counted.

    A program keeps its rows until it knows their sums, and a backward keeps sums of its own.
    """
    head, positions, rows, warps = work.head, work.tile.positions, work.tile.rows, work.num_warps
    row_bytes = next_power_of_2(2 * head.columns + head.tail_columns) * element_bytes
    while positions * rows * row_bytes > WARP_BYTES * warps:
        if positions > 1:
            positions //= 2
        elif rows > 1:
            rows //= 2
        else:
            warps *= 2
    tile = work.tile._replace(positions=positions, rows=rows)
    return work._replace(tile=tile, num_warps=min(MAX_WARPS, warps))


def max_registers(
    wanted: ForwardTile,
    rotation: Rotation,
    facts: Facts,
    dtype: torch.dtype,
    special: bool,
    engine: Engine,
) -> int | None:
    """The limit of a forward's registers in the plain case, where it makes ptxas spill least.

    Others would spill 50 to 400 bytes a thread: weights of each head and roundings in between
    (`special`), interleaved pairs, short rows or very long ones, a tail, an angle of each member,
    fp64.
    """
    plain = facts.tail == 0 and facts.padded_half in PAIRS_WITH_A_LIMIT
    plain &= rotation.on_the_fly or rotation.one_per_pair
    plain &= not (special or rotation.interleaved or dtype == torch.float64)
    return wanted.registers if plain and engine is Engine.NVIDIA else None
