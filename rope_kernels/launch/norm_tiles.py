"""From a call to the tile of a norm: how many rows, in how many registers, in which order.

`tuning.py` has the tables that choose.
"""

from dataclasses import replace
from functools import cache

import torch

from ..call.rotation import Rotation
from ..machine.engine import Engine, triton_is_installed
from .rope_tiles import Tile, tile_of_padded_rows
from .tile_facts import MAX_WARPS, WARP_BYTES, Facts, next_power_of_2
from .tuning import (
    ACROSS_ROWS,
    ALONG_POSITIONS,
    NORM_FORWARD,
    PADDED_ROWS,
    ForwardTile,
    first_match,
)

PAIRS_WITH_A_LIMIT = 64, 128  # of registers: of a row, padded to a power of two


def backward_tile(rotation: Rotation, call: Facts) -> Tile:
    """The backward's tile: that of padded rows, as much as a warp can hold."""
    tile = tile_of_padded_rows(rotation, call, first_match(PADDED_ROWS, call))
    return in_registers(tile, call.element_bytes)


def forward_tile(rotation: Rotation, call: Facts) -> Tile:
    """The forward's tile, so many times the backward's."""
    tile, wanted = backward_tile(rotation, call), wanted_forward(call)
    rows_of_all = tile.positions * tile.rows * wanted.bytes
    positions = min(rows_of_all // wanted.warps, max(tile.positions, wanted.positions))
    rows = min(tile.rows, rows_of_all // positions)
    sizes = {"positions": rows_of_all // rows, "rows": rows}
    blocks = tile.blocks | {"BLOCK_S": sizes["positions"], "BLOCK_R": rows}
    num_warps = min(MAX_WARPS, tile.num_warps * wanted.warps)
    return replace(tile, blocks=blocks, num_warps=num_warps, **sizes)


def wanted_forward(call: Facts) -> ForwardTile:
    """The forward's row of the table, for the order of lanes of this Triton."""
    lanes = ALONG_POSITIONS if lanes_follow_positions() else ACROSS_ROWS
    return first_match(NORM_FORWARD, call, lanes)


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


def in_registers(tile: Tile, element_bytes: int) -> Tile:
    """The tile, halved until a warp has no more than WARP_BYTES of it, the empty places counted.

    A program keeps its rows until it knows their sums, and a backward keeps sums of its own.
    """
    blocks, warps = dict(tile.blocks), tile.num_warps
    row = next_power_of_2(2 * blocks["BLOCK_HALF"] + blocks["BLOCK_TAIL"]) * element_bytes
    while blocks["BLOCK_S"] * blocks["BLOCK_R"] * row > WARP_BYTES * warps:
        name = "BLOCK_S" if blocks["BLOCK_S"] > 1 else "BLOCK_R"
        if blocks[name] == 1:
            warps *= 2
        else:
            blocks[name] //= 2
    sizes = {"positions": blocks["BLOCK_S"], "rows": blocks["BLOCK_R"]}
    return replace(tile, blocks=blocks, num_warps=min(MAX_WARPS, warps), **sizes)


def max_registers(
    wanted: ForwardTile,
    rotation: Rotation,
    call: Facts,
    dtype: torch.dtype,
    special: bool,
    engine: Engine,
) -> int | None:
    """The limit of a forward's registers in the plain case, where it makes ptxas spill least.

    Others would spill 50 to 400 bytes a thread: weights of each head and roundings in between
    (`special`), interleaved pairs, short rows or very long ones, a tail, an angle of each member,
    fp64.
    """
    plain = call.tail == 0 and call.padded_half in PAIRS_WITH_A_LIMIT
    plain &= rotation.on_the_fly or rotation.one_per_pair
    plain &= not (special or rotation.interleaved or dtype == torch.float64)
    return wanted.registers if plain and engine is Engine.NVIDIA else None
