"""Which tile a Triton program takes, and in which order programs take them: the tuned numbers."""

import math
from dataclasses import dataclass

from torch import Tensor

from ..call.rotation import Rotation

# Sizes measured on an H200; benchmarks/NOTES.md tells what was tried.
# Bytes of rows per warp, powers of two: 4 or 8 loads of 16 bytes per thread. One warp needs no
# barrier to share cos and sin. A program that looks up its positions waits longer before it can
# start, and gets more to do.
TILE_BYTES = 2048
LARGER_TILE_BYTES = 4096
WHOLE_ROWS_BYTES = 4096  # of the second kernel's tile, in two warps
BYTES_PER_THREAD = 16  # at most, in one load
# Rows side by side leave some elements of a block empty. Larger blocks leave fewer, but their rows
# share fewer cosines.
FULL_OVER_ROWS = 2 / 3
FULL_OVER_POSITIONS = 0.85
BLOCK_BYTES_IN_PLACE = 1024  # over positions: programs that share a cache line disturb each other
FULL_FOR_TWO_WARPS = 0.75  # emptier, on the fly: each of two warps would have too few rows
FEWEST_ROWS = 3  # of a position, for rows side by side: they evaluate sines of their own
# Where a row's pairs, padded to a power of two, fill less, those of several go side by side.
FULL_WHEN_PADDED = 2 / 3
FULL_WHEN_PADDED_OVER_POSITIONS = 0.8
FEW_ROWS = 2  # of a position: then the table's bytes count, as those of the rows do
MANY_BLOCKS = 4  # of rows of a position; fewer share their cosines too little
ENOUGH_BLOCKS = 12  # from here on it no longer matters that places in the last tile are empty
MOST_EMPTY = 0.1
SECTOR_BYTES = 32  # what DRAM hands over at a time
LINE_BYTES = 128  # of the caches
WHOLE_ROWS = "whole_rows_kernel"
# A stretch has as many positions as keep a table's rows in L2 until all batch entries, or all
# heads, have used them.
STRETCH_OF_BATCH = 1024
STRETCH_OF_ROWS = 4096
WHOLE = 2**30  # where there is no table, or batch entries do not share its rows
BYTES_PER_WARP = 4096  # of a row that is larger than a tile
MAX_WARPS = 8
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

    `rows` and `k_rows` are those of one position. A warp gets 2 or 4 KiB. The sequence length plays
    no part, so no new length compiles a new kernel.
    """
    half, tail = rotation.rotary_dim // 2, 0 if inplace else head_dim - rotation.rotary_dim
    part = {"HALF": half, "TAIL": tail, "START": rotation.rotary_start}
    by_rows = rows, k_rows
    if max(by_rows) >= FEWEST_ROWS:
        whole_rows = takes_whole_rows(rotation, head_dim, element_bytes)
        if pairs_go_side_by_side(rotation, part, element_bytes, whole_rows, rows_outer, inplace):
            return tile_of_pairs_side_by_side(rotation, part, by_rows, element_bytes, rows_outer)
        if whole_rows:
            part["FIRST"] = rotation.rotary_start if inplace else 0
            return tile_of_whole_rows(rotation, part, by_rows, element_bytes, rows_outer, inplace)
    return tile_of_padded_rows(rotation, part, by_rows, head_dim, element_bytes, rows_outer)


def tile_of_padded_rows(
    rotation: Rotation,
    part: dict[str, int],
    rows: tuple[int, int],
    head_dim: int,
    element_bytes: int,
    rows_outer: bool,
) -> Tile:
    """Rows one below the other, each padded to a power of two."""
    half, tail = part["HALF"], part["TAIL"]
    block_half, block_tail = next_power_of_2(half), next_power_of_2(tail) if tail else 0
    padded = next_power_of_2(2 * block_half + block_tail)
    waits = rotation.looks_up_positions and not rotation.on_the_fly
    size = LARGER_TILE_BYTES if waits and not rows[1] else TILE_BYTES
    if 3 * (2 * half + tail) < 2 * padded:
        size = LARGER_TILE_BYTES  # a third of it is empty
    rows_that_fit = max(1, size // (padded * element_bytes))
    positions = next_power_of_2(positions_per_load(rotation))
    if rows_outer and head_dim * element_bytes % LINE_BYTES:
        positions = max(positions, 2)  # neighbors in memory, which share a cache line
    block_r = min(next_power_of_2(max(rows)), max(1, rows_that_fit // positions))
    block_s = rows_that_fit // block_r
    if max(rows) <= FEW_ROWS:
        with_table = block_r * padded * element_bytes + table_bytes(rotation)
        block_s = min(block_s, max(positions, next_power_of_2(-(-size // with_table))))
    num_warps = min(MAX_WARPS, max(1, padded * element_bytes // BYTES_PER_WARP))
    tile = {"BLOCK_S": block_s, "BLOCK_R": block_r}
    padding = {"BLOCK_HALF": block_half, "BLOCK_TAIL": block_tail, "ROWS_PER_BLOCK": 1}
    blocks = part | tile | padding
    return Tile("rope_kernel", num_warps, block_s, block_r, blocks, _flags(rotation, False))


def tile_of_pairs_side_by_side(
    rotation: Rotation,
    part: dict[str, int],
    rows: tuple[int, int],
    element_bytes: int,
    rows_outer: bool,
) -> Tile:
    """Blocks of the pairs of several rows side by side, all of one position, or of many."""
    half = part["HALF"]
    block = block_of_rows(half, element_bytes, FULL_OVER_POSITIONS)
    over_positions = rows_outer and rotation.cu_seqlens is None
    rows_per_block = block // half if over_positions else min(block // half, max(rows))
    block = next_power_of_2(rows_per_block * half)
    block_bytes = 2 * block * element_bytes
    in_sectors = half * element_bytes % SECTOR_BYTES == 0
    most = max(1, (LARGER_TILE_BYTES if in_sectors else TILE_BYTES) // block_bytes)
    if over_positions:
        block_s, block_r = 1, min(next_power_of_2(max(rows)), most)
        positions, tile_rows = rows_per_block, block_r
    else:
        block_r = blocks_over_rows(rows, rows_per_block, most)
        block_s = most // block_r
        positions, tile_rows = block_s, block_r * rows_per_block
    num_warps = min(MAX_WARPS, max(1, block_s * block_r * block_bytes // TILE_BYTES))
    tile = {"BLOCK_S": block_s, "BLOCK_R": block_r}
    padding = {"BLOCK_HALF": block, "BLOCK_TAIL": 0, "ROWS_PER_BLOCK": rows_per_block}
    blocks, flags = part | tile | padding, _flags(rotation, over_positions)
    return Tile("rope_kernel", num_warps, positions, tile_rows, blocks, flags)


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


def tile_of_whole_rows(
    rotation: Rotation,
    part: dict[str, int],
    rows: tuple[int, int],
    element_bytes: int,
    rows_outer: bool,
    inplace: bool,
) -> Tile:
    """Blocks of rows side by side, all of one position, or each over so many positions."""
    width = 2 * part["HALF"] + part["TAIL"]
    block = block_of_rows(width, element_bytes, FULL_OVER_ROWS)
    # Rows side by side are neighbors in memory; and blocks that share their cosines should be many.
    # Packed tokens look up their sequences, so a program takes few of them.
    over_positions = rows_outer or too_few(rows, block // width)
    over_positions &= rotation.cu_seqlens is None
    size, warp_bytes = WHOLE_ROWS_BYTES, TILE_BYTES
    if over_positions:
        block = block_of_rows(width, element_bytes, FULL_OVER_POSITIONS)
        if inplace:
            block = max(block, BLOCK_BYTES_IN_PLACE // element_bytes)
        rows_per_block, most = block // width, max(1, size // (block * element_bytes))
        block_s, block_r = 1, min(next_power_of_2(max(rows)), most)
        positions, tile_rows = rows_per_block, block_r
    else:
        rows_per_block = min(block // width, max(rows))
        block = next_power_of_2(rows_per_block * width)
        waits = rotation.looks_up_positions and width * element_bytes % BYTES_PER_THREAD == 0
        if waits or (rotation.on_the_fly and rows_per_block * width < FULL_FOR_TWO_WARPS * block):
            warp_bytes = LARGER_TILE_BYTES
            if not rotation.on_the_fly:
                size *= 2
        elif rotation.cu_seqlens is not None:  # packed rows that are not read 16 bytes at a time
            size = TILE_BYTES
        most = max(1, size // (block * element_bytes))
        block_r = blocks_over_rows(rows, rows_per_block, most)
        block_s = 1 if 4 * block_r >= most else most // block_r
        positions, tile_rows = block_s, block_r * rows_per_block
    tile = {"BLOCK_S": block_s, "BLOCK_R": block_r, "BLOCK": block}
    tile_bytes = block_s * block_r * block * element_bytes
    num_warps = min(MAX_WARPS, max(1, tile_bytes // warp_bytes))
    blocks = part | tile | {"ROWS_PER_BLOCK": rows_per_block}
    flags = {"IN_PLACE": inplace, "OVER_POSITIONS": over_positions}
    return Tile(WHOLE_ROWS, num_warps, positions, tile_rows, blocks, flags)


def too_few(rows: tuple[int, int], rows_per_block: int) -> bool:
    """Whether rows of a position, those of q and of k, fill too few blocks, or leave many empty."""
    blocks = max(rows) / rows_per_block
    empty = 1 - sum(rows) / places(rows, rows_per_block * MANY_BLOCKS)
    return blocks < MANY_BLOCKS or (blocks < ENOUGH_BLOCKS and empty > MOST_EMPTY)


def places(rows: tuple[int, int], tile_rows: int) -> int:
    """Rows that the tiles of q and of k have room for."""
    return sum(-(-n // tile_rows) * tile_rows for n in rows)


def blocks_over_rows(rows: tuple[int, int], rows_per_block: int, most: int) -> int:
    """Blocks, a power of two up to `most`, leaving few places empty, yet enough to share cosines.

    `rows` are those of q and of k.
    """
    needed = next_power_of_2(-(-max(rows) // rows_per_block))
    if needed < most:
        return needed
    sizes = [size for size in (most, most // 2, most // 4) if size >= MANY_BLOCKS] or [most]
    return min(sizes, key=lambda blocks: places(rows, blocks * rows_per_block))


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


def takes_whole_rows(rotation: Rotation, head_dim: int, element_bytes: int) -> bool:
    """Whether second members of half-split pairs are worse aligned than whole rows are."""
    half, start = rotation.rotary_dim // 2, rotation.rotary_start
    of_rows = math.gcd(SECTOR_BYTES, head_dim * element_bytes)
    of_pairs = math.gcd(of_rows, start * element_bytes, half * element_bytes)
    return not any(rotation.pairings) and of_pairs < of_rows


def pairs_go_side_by_side(
    rotation: Rotation,
    part: dict[str, int],
    element_bytes: int,
    whole_rows: bool,
    rows_outer: bool,
    inplace: bool,
) -> bool:
    """Whether pairs of several rows fill a block much better than one row's, rounded up, would.

    `whole_rows` says whether the second kernel could take the call. Packed tokens wait longest, so
    their programs need the most bytes in flight; there pairs side by side are faster even if they
    are read 8 bytes at a time.
    """
    half, padded = part["HALF"], next_power_of_2(part["HALF"])
    largest = 4 * 2 * padded * element_bytes  # bytes of a block, see `block_of_rows`
    if part["TAIL"] or any(rotation.pairings) or largest > MAX_WARPS * TILE_BYTES:
        return False
    if rotation.cu_seqlens is not None:
        narrow = whole_rows and half * element_bytes % 8
        return not (narrow or rows_outer) and half < FULL_WHEN_PADDED * padded
    if whole_rows or (rows_outer and inplace):
        return False
    full = FULL_WHEN_PADDED_OVER_POSITIONS if rows_outer else FULL_WHEN_PADDED
    return half < full * padded


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


def next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()
