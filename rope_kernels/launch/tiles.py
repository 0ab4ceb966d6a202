"""From a call to its tile, and the order in which programs take tiles.

`tuning.py` has the tables that choose; here is what they choose from.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..call.rotation import Rotation
from ..kernels.values import Head, Tile
from ..machine.engine import Engine
from .tile_facts import (
    FEW_ROWS,
    MANY_BLOCKS,
    MAX_WARPS,
    MOST_EMPTY,
    WARP_BYTES,
    Facts,
    block_of_rows,
    next_power_of_2,
    places,
)
from .tuning import (
    ACROSS_ROWS,
    ANY,
    NORM_FORWARD,
    PADDED_ROWS,
    ROTATION,
    ForwardTile,
    Kind,
    RotationTile,
    first_match,
    lanes_of_a_tile,
)

WHOLE_ROWS = "whole_rows_kernel"
# A stretch has as many positions as keep a table's rows in L2 until all batch entries, or all
# heads, have used them. Measured on an H200; benchmarks/NOTES.md tells what was tried.
STRETCH_OF_BATCH = 1024
STRETCH_OF_ROWS = 4096
NO_STRETCH = 2**30  # where there is no table, or batch entries do not share its rows
MANY_POSITIONS = 8  # of whole rows; fewer do not share a tile
LINE_BYTES = 128  # of the caches
BYTES_PER_LOAD = 32 * 8  # of a warp, at which a table's rows are no longer slow to read
# Tiles have fewer rows as long as more than MOST_EMPTY of the places is empty, but at least:
LEAST_ROWS = 2  # of a position; with one, a backward loses 5 to 15 points
LEAST_ROWS_ACROSS = 4  # of a backward whose lanes run across rows: with two it takes 226 registers
PAIRS_WITH_A_LIMIT = 64, 128  # of registers: of a row, padded to a power of two


class OrderOfPrograms(NamedTuple):
    """The first fields of `Order`, but that `stretch` is in positions."""

    per_batch: bool
    rows_outer: bool
    stretch: int


def order_of_programs(t: Tensor, rotation: Rotation) -> OrderOfPrograms:
    """The order in which programs take tiles: close to that of memory.

    =============  =========  ==========  ==================================================
    memory order   per_batch  rows_outer  stretch
    =============  =========  ==========  ==================================================
    s, b, h        False      False       1
    b, s, h        True       False       STRETCH_OF_BATCH; NO_STRETCH if rows are not shared
    b, h, s        True       True        STRETCH_OF_ROWS; NO_STRETCH without a table
    h, s, b        False      True        the same
    =============  =========  ==========  ==================================================

    Angles that differ between batch entries make `per_batch` True in any order.
    """
    # of equal strides, as beside a dimension of one index, the format's first is the outer one
    dims = sorted(range(t.dim()), key=lambda dim: -t.stride(dim))
    memory = "".join(rotation.tensor_format.replace("t", "s")[dim] for dim in dims)
    batch_is_outer = memory.find("b") in range(memory.index("s"))
    rows_are_outer = memory.index("h") < memory.index("s")
    if not (batch_is_outer or rows_are_outer):
        stretch = 1
    elif rotation.on_the_fly or (rotation.per_batch and not rows_are_outer):
        stretch = NO_STRETCH
    else:
        stretch = STRETCH_OF_ROWS if rows_are_outer else STRETCH_OF_BATCH
    per_batch = rotation.per_batch or batch_is_outer
    return OrderOfPrograms(per_batch, rows_are_outer, stretch)


class Work(NamedTuple):
    """What one program takes, and which kernel takes it."""

    kernel: str
    num_warps: int
    head: Head
    tile: Tile

    @property
    def positions(self) -> int:
        """Positions of a program."""
        return self.tile.positions * (self.tile.side_by_side if self.tile.over_positions else 1)

    @property
    def rows(self) -> int:
        """Rows of a program, of each of its positions."""
        return self.tile.rows * (1 if self.tile.over_positions else self.tile.side_by_side)


def rope_tile(rotation: Rotation, facts: Facts) -> Work:
    """Choose the kernel of a rotation, and its tile."""
    wanted = first_match(ROTATION, facts, lanes_of_a_tile() if facts.packed else ANY)
    if wanted.kind is Kind.PAIRS:
        return tile_of_pairs_side_by_side(rotation, facts, wanted)
    if wanted.kind is Kind.WHOLE:
        return tile_of_whole_rows(rotation, facts, wanted)
    return tile_of_padded_rows(rotation, facts, wanted)


def rows_run_outer(order: OrderOfPrograms, work: Work, rows: tuple[int, int]) -> bool:
    """Whether programs go through all positions of some heads before those of the next heads.

    Not if tiles of the `rows` of q and of k stay partly empty: programs that have less to do than
    others would follow each other, and the GPU would wait for their start.
    """
    return order.rows_outer and 1 - sum(rows) / places(rows, work.rows) <= MOST_EMPTY


def tile_of_padded_rows(rotation: Rotation, facts: Facts, wanted: RotationTile) -> Work:
    """Rows one below the other, each padded to a power of two."""
    row_bytes = facts.padded_width * facts.element_bytes
    rows_that_fit = max(1, wanted.tile_bytes // row_bytes)
    positions = next_power_of_2(positions_per_load(rotation))
    if facts.rows_outer and facts.head_dim * facts.element_bytes % LINE_BYTES:
        positions = max(positions, 2)  # neighbors in memory, which share a cache line
    block_r = min(next_power_of_2(facts.most_rows), max(1, rows_that_fit // positions))
    block_r = min(block_r, wanted.rows or block_r)
    while block_r > wanted.least_rows and facts.empty(block_r) > wanted.most_empty:
        block_r //= 2
    block_s = rows_that_fit // block_r
    if facts.most_rows <= FEW_ROWS:  # then the table's bytes count, as those of the rows do
        with_table = block_r * row_bytes + table_bytes(rotation)
        block_s = min(block_s, max(positions, next_power_of_2(-(-wanted.tile_bytes // with_table))))
    num_warps = warps_of(row_bytes, wanted)
    head = head_of(rotation, facts, facts.padded_half, facts.padded_tail)
    return Work("rope_kernel", num_warps, head, Tile(positions=block_s, rows=block_r))


def tile_of_pairs_side_by_side(rotation: Rotation, facts: Facts, wanted: RotationTile) -> Work:
    """Blocks of the pairs of several rows side by side, all of one position, or of many."""
    side = side_by_side(facts, wanted, facts.half, 2 * facts.element_bytes)
    head = head_of(rotation, facts, side.block, 0)
    return Work("rope_kernel", side.num_warps, head, side.tile)


def tile_of_whole_rows(rotation: Rotation, facts: Facts, wanted: RotationTile) -> Work:
    """Blocks of rows side by side, all of one position, or each over so many positions."""
    side = side_by_side(facts, wanted, facts.width, facts.element_bytes)
    head = head_of(rotation, facts, side.block, 0)
    return Work(WHOLE_ROWS, side.num_warps, head, side.tile)


def head_of(rotation: Rotation, facts: Facts, columns: int, tail_columns: int) -> Head:
    """The elements of a head, in a block of so many columns."""
    reads_interleaved, writes_interleaved = rotation.pairings
    return Head(
        half=facts.half,
        tail=facts.tail,
        start=facts.start,
        columns=columns,
        tail_columns=tail_columns,
        reads_interleaved=reads_interleaved,
        writes_interleaved=writes_interleaved,
    )


class SideBySide(NamedTuple):
    """A tile of blocks that rows fill side by side."""

    block: int  # columns, a power of two
    tile: Tile
    num_warps: int


def side_by_side(facts: Facts, wanted: RotationTile, width: int, column_bytes: int) -> SideBySide:
    """Lay rows of `width` columns, whole ones or their pairs, side by side."""
    block = block_of_rows(width, facts.element_bytes, wanted.full)
    rows_per_block = max(block, wanted.block_bytes // column_bytes) // width
    if not wanted.over_positions:
        rows_per_block = min(rows_per_block, facts.most_rows)
    block = next_power_of_2(rows_per_block * width)
    most = max(1, wanted.tile_bytes // (block * column_bytes))
    if wanted.over_positions:
        block_s, block_r = 1, min(next_power_of_2(facts.most_rows), most)
    else:
        block_r = blocks_over_rows((facts.rows, facts.k_rows), rows_per_block, most)
        block_s = most // block_r
        if wanted.kind is Kind.WHOLE and block_s < MANY_POSITIONS:
            block_s = 1
    num_warps = warps_of(block_s * block_r * block * column_bytes, wanted)
    tile = Tile(
        positions=block_s,
        rows=block_r,
        side_by_side=rows_per_block,
        over_positions=wanted.over_positions,
    )
    return SideBySide(block, tile, num_warps)


def warps_of(tile_bytes: int, wanted: RotationTile) -> int:
    return min(MAX_WARPS, max(1, tile_bytes // wanted.warp_bytes))


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


# With a norm: how many rows, in how many registers


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
    engine: Engine,
) -> int | None:
    """The limit of a forward's registers in the plain case, where it makes ptxas spill least.

    Others would spill 50 to 400 bytes a thread: roundings in between, interleaved pairs, short rows
    or very long ones, a tail, an angle of each member, fp64.
    """
    plain = facts.tail == 0 and facts.padded_half in PAIRS_WITH_A_LIMIT
    plain &= rotation.on_the_fly or rotation.one_per_pair
    plain &= not (rotation.norm.like_model or rotation.interleaved or dtype == torch.float64)
    return wanted.registers if plain and engine is Engine.NVIDIA else None
