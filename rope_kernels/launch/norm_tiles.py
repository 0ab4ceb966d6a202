"""From a call to the tile of a norm: how many rows, in how many registers, in which order.

`tuning.py` has the tables that choose.
"""

import torch

from ..call.rotation import Rotation
from ..machine.engine import Engine
from .rope_tiles import Work, tile_of_padded_rows
from .tile_facts import MAX_WARPS, MOST_EMPTY, WARP_BYTES, Facts, next_power_of_2
from .tuning import (
    ACROSS_ROWS,
    NORM_FORWARD,
    PADDED_ROWS,
    ForwardTile,
    first_match,
    lanes_of_a_tile,
)

# Tiles have fewer rows as long as more than MOST_EMPTY of the places is empty, but at least:
LEAST_ROWS = 2  # of a position; with one, a backward loses 5 to 15 points
LEAST_ROWS_ACROSS = 4  # of a backward whose lanes run across rows: with two it takes 226 registers
PAIRS_WITH_A_LIMIT = 64, 128  # of registers: of a row, padded to a power of two


def backward_tile(rotation: Rotation, facts: Facts) -> Work:
    """The backward's tile: padded rows with few empty places, as much as a warp can hold."""
    least = LEAST_ROWS_ACROSS if lanes_of_a_tile() == ACROSS_ROWS else LEAST_ROWS
    return _padded(rotation, facts, {"most_empty": MOST_EMPTY, "least_rows": least})


def forward_tile(rotation: Rotation, facts: Facts) -> Work:
    """So many times what a warp can hold; in bhsd of the rotation's tile.

    There it takes more positions, and would take too few rows.
    """
    fewer = {"most_empty": MOST_EMPTY, "least_rows": LEAST_ROWS}
    work = _padded(rotation, facts, {} if facts.rows_outer else fewer)
    wanted = wanted_forward(facts)
    rows_of_all = work.positions * work.rows * wanted.bytes
    positions = min(rows_of_all // wanted.warps, max(work.positions, wanted.positions))
    rows = min(work.rows, rows_of_all // positions)
    tile = work.tile._replace(positions=rows_of_all // rows, rows=rows)
    return work._replace(tile=tile, num_warps=min(MAX_WARPS, work.num_warps * wanted.warps))


def _padded(rotation: Rotation, facts: Facts, changes: dict[str, float]) -> Work:
    """A tile of padded rows, as `PADDED_ROWS` and `changes` say, and as much as a warp can hold."""
    wanted = first_match(PADDED_ROWS, facts)._replace(**changes)
    return in_registers(tile_of_padded_rows(rotation, facts, wanted), facts.element_bytes)


def wanted_forward(facts: Facts) -> ForwardTile:
    """The forward's row of the table, for the order of lanes of this Triton."""
    return first_match(NORM_FORWARD, facts, lanes_of_a_tile())


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
