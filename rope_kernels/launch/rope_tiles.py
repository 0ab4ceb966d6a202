"""From a call to its tile, and the order in which programs take tiles.

`tuning.py` has the table that chooses; here is what it chooses from.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ..call.rotation import Rotation
from .tile_facts import (
    FEW_ROWS,
    MANY_BLOCKS,
    MAX_WARPS,
    Facts,
    block_of_rows,
    facts_of,
    next_power_of_2,
    places,
)
from .tuning import ROTATION, Kind, RotationTile, first_match

WHOLE_ROWS = "whole_rows_kernel"
# A stretch has as many positions as keep a table's rows in L2 until all batch entries, or all
# heads, have used them. Measured on an H200; benchmarks/NOTES.md tells what was tried.
STRETCH_OF_BATCH = 1024
STRETCH_OF_ROWS = 4096
WHOLE = 2**30  # where there is no table, or batch entries do not share its rows
MANY_POSITIONS = 8  # of whole rows; fewer do not share a tile
LINE_BYTES = 128  # of the caches
BYTES_PER_LOAD = 32 * 8  # of a warp, at which a table's rows are no longer slow to read


def order_of_programs(t: Tensor, rotation: Rotation) -> dict[str, int | bool]:
    """The order in which programs take tiles: close to that of memory. STRETCH is in positions.

    =============  =========  ==========  ==================================================
    memory order   PER_BATCH  ROWS_OUTER  STRETCH
    =============  =========  ==========  ==================================================
    s, b, h        False      False       1
    b, s, h        True       False       STRETCH_OF_BATCH; WHOLE if no table rows are shared
    b, h, s        True       True        STRETCH_OF_ROWS; WHOLE without a table
    h, s, b        False      True        the same
    =============  =========  ==========  ==================================================

    Angles that differ between batch entries make PER_BATCH True in any order.
    """
    # of equal strides, as beside a dimension of one index, the format's first is the outer one
    dims = sorted(range(t.dim()), key=lambda dim: -t.stride(dim))
    memory = "".join(rotation.tensor_format.replace("t", "s")[dim] for dim in dims)
    batch_is_outer = memory.find("b") in range(memory.index("s"))
    rows_are_outer = memory.index("h") < memory.index("s")
    if not (batch_is_outer or rows_are_outer):
        stretch = 1
    elif rotation.on_the_fly or (rotation.per_batch and not rows_are_outer):
        stretch = WHOLE
    else:
        stretch = STRETCH_OF_ROWS if rows_are_outer else STRETCH_OF_BATCH
    per_batch = rotation.per_batch or batch_is_outer
    return {"PER_BATCH": per_batch, "ROWS_OUTER": rows_are_outer, "STRETCH": stretch}


@dataclass(frozen=True)
class Tile:
    """What one program takes, and which kernel takes it."""

    kernel: str
    num_warps: int
    positions: int
    rows: int  # of each position
    blocks: dict[str, int]  # constexprs of that kernel, in its order
    flags: dict[str, bool]  # those that it alone has


def plan_tile(
    rotation: Rotation,
    head_dim: int,
    rows: int,
    element_bytes: int,
    *,
    k_rows: int = 0,
    rows_outer: bool,
    inplace: bool,
) -> Tile:
    """Choose the kernel, and its tile: rows of one position, then of several, up to a fixed size.

    `rows` and `k_rows` are those of one position.
    """
    order = {"rows_outer": rows_outer, "inplace": inplace}
    call = facts_of(rotation, head_dim, (rows, k_rows), element_bytes, **order)
    wanted = first_match(ROTATION, call)
    if wanted.kind is Kind.PAIRS:
        return tile_of_pairs_side_by_side(rotation, call, wanted)
    if wanted.kind is Kind.WHOLE:
        return tile_of_whole_rows(rotation, call, wanted)
    return tile_of_padded_rows(rotation, call, wanted)


def tile_of_padded_rows(rotation: Rotation, call: Facts, wanted: RotationTile) -> Tile:
    """Rows one below the other, each padded to a power of two."""
    row_bytes = call.padded_width * call.element_bytes
    rows_that_fit = max(1, wanted.tile_bytes // row_bytes)
    positions = next_power_of_2(positions_per_load(rotation))
    if call.rows_outer and call.head_dim * call.element_bytes % LINE_BYTES:
        positions = max(positions, 2)  # neighbors in memory, which share a cache line
    block_r = min(next_power_of_2(call.most_rows), max(1, rows_that_fit // positions))
    block_s = rows_that_fit // block_r
    if call.most_rows <= FEW_ROWS:  # then the table's bytes count, as those of the rows do
        with_table = block_r * row_bytes + table_bytes(rotation)
        block_s = min(block_s, max(positions, next_power_of_2(-(-wanted.tile_bytes // with_table))))
    num_warps = warps_of(row_bytes, wanted)
    part = {"HALF": call.half, "TAIL": call.tail, "START": call.start}
    tile = {"BLOCK_S": block_s, "BLOCK_R": block_r}
    padding = {"BLOCK_HALF": call.padded_half, "BLOCK_TAIL": call.padded_tail, "ROWS_PER_BLOCK": 1}
    blocks = part | tile | padding
    return Tile("rope_kernel", num_warps, block_s, block_r, blocks, _flags(rotation, False))


def tile_of_pairs_side_by_side(rotation: Rotation, call: Facts, wanted: RotationTile) -> Tile:
    """Blocks of the pairs of several rows side by side, all of one position, or of many."""
    side = side_by_side(call, wanted, call.half, 2 * call.element_bytes)
    part = {"HALF": call.half, "TAIL": call.tail, "START": call.start}
    tile = {"BLOCK_S": side.block_s, "BLOCK_R": side.block_r}
    padding = {"BLOCK_HALF": side.block, "BLOCK_TAIL": 0, "ROWS_PER_BLOCK": side.rows_per_block}
    blocks, flags = part | tile | padding, _flags(rotation, wanted.over_positions)
    return Tile("rope_kernel", side.num_warps, side.positions, side.rows, blocks, flags)


def tile_of_whole_rows(rotation: Rotation, call: Facts, wanted: RotationTile) -> Tile:
    """Blocks of rows side by side, all of one position, or each over so many positions."""
    side = side_by_side(call, wanted, call.width, call.element_bytes)
    part = {"HALF": call.half, "TAIL": call.tail, "START": call.start}
    part["FIRST"] = call.start if call.inplace else 0
    tile = {"BLOCK_S": side.block_s, "BLOCK_R": side.block_r, "BLOCK": side.block}
    blocks = part | tile | {"ROWS_PER_BLOCK": side.rows_per_block}
    flags = {"IN_PLACE": call.inplace, "OVER_POSITIONS": wanted.over_positions}
    return Tile(WHOLE_ROWS, side.num_warps, side.positions, side.rows, blocks, flags)


class SideBySide(NamedTuple):
    """A tile of blocks that rows fill side by side."""

    block: int  # columns, a power of two
    rows_per_block: int  # of one position, or of a head
    block_s: int
    block_r: int
    positions: int
    rows: int  # of each position
    num_warps: int


def side_by_side(call: Facts, wanted: RotationTile, width: int, column_bytes: int) -> SideBySide:
    """Lay rows of `width` columns, whole ones or their pairs, side by side."""
    block = block_of_rows(width, call.element_bytes, wanted.full)
    rows_per_block = max(block, wanted.block_bytes // column_bytes) // width
    if not wanted.over_positions:
        rows_per_block = min(rows_per_block, call.most_rows)
    block = next_power_of_2(rows_per_block * width)
    most = max(1, wanted.tile_bytes // (block * column_bytes))
    if wanted.over_positions:
        block_s, block_r = 1, min(next_power_of_2(call.most_rows), most)
        positions, rows = rows_per_block, block_r
    else:
        block_r = blocks_over_rows((call.rows, call.k_rows), rows_per_block, most)
        block_s = most // block_r
        if wanted.kind is Kind.WHOLE and block_s < MANY_POSITIONS:
            block_s = 1
        positions, rows = block_s, block_r * rows_per_block
    num_warps = warps_of(block_s * block_r * block * column_bytes, wanted)
    return SideBySide(block, rows_per_block, block_s, block_r, positions, rows, num_warps)


def warps_of(tile_bytes: int, wanted: RotationTile) -> int:
    return min(MAX_WARPS, max(1, tile_bytes // wanted.warp_bytes))


def _flags(rotation: Rotation, over_positions: bool) -> dict[str, bool]:
    return flags_of_pairings(rotation) | {"OVER_POSITIONS": over_positions}


def flags_of_pairings(rotation: Rotation) -> dict[str, bool]:
    """Where pairs are neighbors: in the table, in what is read, and in what is written."""
    reads_interleaved, writes_interleaved = rotation.pairings
    return {
        "INTERLEAVED": rotation.interleaved,
        "READS_INTERLEAVED": reads_interleaved,
        "WRITES_INTERLEAVED": writes_interleaved,
    }


def blocks_over_rows(rows: tuple[int, int], rows_per_block: int, most: int) -> int:
    """Blocks, a power of two up to `most`, leaving few places empty, yet enough to share cosines.

    `rows` are those of q and of k.
    """
    needed = next_power_of_2(-(-max(rows) // rows_per_block))
    if needed < most:
        return needed
    sizes = [size for size in (most, most // 2, most // 4) if size >= MANY_BLOCKS] or [most]
    return min(sizes, key=lambda blocks: places(rows, blocks * rows_per_block))


def table_bytes(rotation: Rotation) -> int:
    """Of one position."""
    if rotation.on_the_fly:
        return 0
    tables = 1 if rotation.sin is None else 2
    return tables * rotation.table.shape[-1] * rotation.table.element_size()


def positions_per_load(rotation: Rotation) -> int:
    """Positions whose cosines a warp should read together, to read more than 8 bytes a thread."""
    if rotation.sin is None:
        return 1
    row_bytes = rotation.rotary_dim // 2 * rotation.table.element_size()
    return max(1, BYTES_PER_LOAD // row_bytes)
