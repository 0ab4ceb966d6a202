"""How many rows a program of the norm's kernels takes, in how many registers and in which order.

Nothing explains all of it: these are chosen from what benchmarks/NOTES.md has measured on an H200.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch

from ..call.rotation import Rotation
from ..machine.engine import Engine, triton_is_installed
from .rope_tiles import MAX_WARPS, TILE_BYTES, Tile, next_power_of_2

PAIRS_WITH_A_LIMIT = 64, 128  # of registers: of a row, padded to a power of two


class ForwardTile(NamedTuple):
    """How a forward's tile differs from a backward's, which loads the weights first."""

    bytes: int = 1  # times the backward's; at least `warps`
    warps: int = 1  # times the backward's
    positions: int = 1  # at least, as long as each of `warps` still has a row
    registers: int | None = None  # of a thread, where it has no special case; None: no limit
    weights_last: bool = False  # loaded after the elements


def forward_tile(tile: Tile, rotation: Rotation, rows_outer: bool) -> Tile:
    """The forward's tile, of the one that `in_registers` returns."""
    wanted = wanted_forward(rotation, rows_outer, tile.blocks)
    rows_of_all = tile.positions * tile.rows * wanted.bytes
    positions = min(rows_of_all // wanted.warps, max(tile.positions, wanted.positions))
    rows = min(tile.rows, rows_of_all // positions)
    sizes = {"positions": rows_of_all // rows, "rows": rows}
    blocks = tile.blocks | {"BLOCK_S": sizes["positions"], "BLOCK_R": rows}
    num_warps = min(MAX_WARPS, tile.num_warps * wanted.warps)
    return replace(tile, blocks=blocks, num_warps=num_warps, **sizes)


def wanted_forward(rotation: Rotation, rows_outer: bool, blocks: dict[str, int]) -> ForwardTile:
    """By what is next to each other in memory: rows of a position, or positions of a row.

    Args:
        rotation: of the call.
        rows_outer: the positions of a row are next to each other.
        blocks: the tile's constexprs.
    """
    packed, pairs = rotation.cu_seqlens is not None, blocks["BLOCK_HALF"]
    if rotation.on_the_fly:
        return _on_the_fly(packed, rows_outer, pairs)
    full = blocks["HALF"] == pairs and blocks["TAIL"] == 0
    if lanes_follow_positions():
        return _from_a_table_along_positions(packed, rows_outer, pairs, full)
    return _from_a_table_across_rows(packed, rows_outer, pairs, full)


def _on_the_fly(packed: bool, rows_outer: bool, pairs: int) -> ForwardTile:
    if packed:
        return ForwardTile(bytes=2)
    if rows_outer:
        return ForwardTile(bytes=2, positions=4, registers=96, weights_last=pairs <= 64)
    return ForwardTile(weights_last=pairs <= 64)


def _from_a_table_along_positions(
    packed: bool, rows_outer: bool, pairs: int, full: bool
) -> ForwardTile:
    if packed:
        return ForwardTile(bytes=2, registers=96)
    if not rows_outer:
        return ForwardTile()
    if full and pairs <= 64:
        return ForwardTile(bytes=2, warps=2, positions=8, registers=72)
    return ForwardTile(bytes=2, positions=4)


def _from_a_table_across_rows(
    packed: bool, rows_outer: bool, pairs: int, full: bool
) -> ForwardTile:
    """Where each thread has more angles than along positions, and fewer registers are left."""
    if packed and not full:
        return ForwardTile(bytes=2)
    if packed:
        return ForwardTile(bytes=2, registers=112, weights_last=True)
    if not rows_outer:
        return ForwardTile()
    if full and pairs < 64:
        return ForwardTile(bytes=2, warps=2, positions=8)
    return ForwardTile(bytes=2, positions=4, weights_last=pairs == 64)


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
    """The tile, halved until a warp has no more than TILE_BYTES of it, the empty places counted.

    A program keeps its rows until it knows their sums, and a backward keeps sums of its own.
    """
    blocks, warps = dict(tile.blocks), tile.num_warps
    row = next_power_of_2(2 * blocks["BLOCK_HALF"] + blocks["BLOCK_TAIL"]) * element_bytes
    while blocks["BLOCK_S"] * blocks["BLOCK_R"] * row > TILE_BYTES * warps:
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
    blocks: dict[str, int],
    dtype: torch.dtype,
    special: bool,
    engine: Engine,
) -> int | None:
    """The limit of a forward's registers in the plain case, where it makes ptxas spill least.

    Others would spill 50 to 400 bytes a thread: weights of each head and roundings in between
    (`special`), interleaved pairs, short rows or very long ones, a tail, an angle of each member,
    fp64.
    """
    plain = blocks["TAIL"] == 0 and blocks["BLOCK_HALF"] in PAIRS_WITH_A_LIMIT
    plain &= rotation.on_the_fly or rotation.one_per_pair
    plain &= not (special or rotation.interleaved or dtype == torch.float64)
    return wanted.registers if plain and engine is Engine.NVIDIA else None
