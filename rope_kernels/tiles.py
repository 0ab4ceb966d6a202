"""Which tile a Triton program takes, and in which order programs take them: the tuned numbers."""

import math
from dataclasses import dataclass

from torch import Tensor

from .rotation import Rotation

# Sizes measured on an H200; benchmarks/NOTES.md tells what was tried.
# Bytes of rows per program, powers of two: 4 or 8 loads of 16 bytes per thread of its one warp,
# which needs no barrier to share cos and sin. A program that looks up its positions waits longer
# before it can start, and gets more to do.
TILE_BYTES = 2048
LARGER_TILE_BYTES = 4096  # where a program has more to do per row, or a third of its tile is empty
SECTOR_BYTES = 32  # what DRAM hands over at a time
LINE_BYTES = 128  # of the caches
WHOLE_ROWS = "whole_rows_kernel"  # its name in whole_rows.py
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
    blocks: dict[str, int]  # constexprs of that kernel, in its order
    flags: dict[str, bool]  # those that it alone has


def plan_tile(
    rotation: Rotation,
    head_dim: int,
    rows: int,
    element_bytes: int,
    *,
    rows_outer: bool,
    has_k: bool,
    inplace: bool,
) -> Tile:
    """Choose the kernel, and its tile: rows of one position, then of several, up to a fixed size.

    One warp, unless a single row is already too much for it. The sequence length plays no part, so
    no new length compiles a new kernel.
    """
    half, tail = rotation.rotary_dim // 2, 0 if inplace else head_dim - rotation.rotary_dim
    whole_rows = takes_whole_rows(rotation, head_dim, element_bytes)
    if whole_rows:
        padded = _next_power_of_2(2 * half + tail)
    else:
        block_half, block_tail = _next_power_of_2(half), _next_power_of_2(tail) if tail else 0
        padded = _next_power_of_2(2 * block_half + block_tail)
    size = tile_bytes(rotation, has_k, whole_rows)
    if 3 * (2 * half + tail) < 2 * padded:
        size = max(size, LARGER_TILE_BYTES)  # a third of it is empty
    rows_that_fit = max(1, size // (padded * element_bytes))
    positions = _next_power_of_2(positions_per_load(rotation))
    if rows_outer and head_dim * element_bytes % LINE_BYTES:
        positions = max(positions, 2)  # neighbors in memory, which share a cache line
    rows_a_position = max(1, rows_that_fit // positions)
    block_r = min(_next_power_of_2(rows), rows_a_position)
    tile = {"BLOCK_S": rows_that_fit // block_r, "BLOCK_R": block_r}
    num_warps = min(MAX_WARPS, max(1, padded * element_bytes // BYTES_PER_WARP))
    start = rotation.rotary_start
    if whole_rows:
        part = {"HALF": half, "TAIL": tail, "START": start, "FIRST": start if inplace else 0}
        return Tile(WHOLE_ROWS, num_warps, part | tile | {"BLOCK": padded}, {"IN_PLACE": inplace})
    part, padding = {"HALF": half, "TAIL": tail, "START": start}, {"BLOCK_HALF": block_half}
    reads_interleaved, writes_interleaved = rotation.pairings
    flags = {
        "INTERLEAVED": rotation.interleaved,
        "READS_INTERLEAVED": reads_interleaved,
        "WRITES_INTERLEAVED": writes_interleaved,
    }
    blocks = part | tile | padding | {"BLOCK_TAIL": block_tail}
    return Tile("rope_kernel", num_warps, blocks, flags)


def takes_whole_rows(rotation: Rotation, head_dim: int, element_bytes: int) -> bool:
    """Whether second members of half-split pairs are worse aligned than whole rows are."""
    half, start = rotation.rotary_dim // 2, rotation.rotary_start
    of_rows = math.gcd(SECTOR_BYTES, head_dim * element_bytes)
    of_pairs = math.gcd(of_rows, start * element_bytes, half * element_bytes)
    return not any(rotation.pairings) and of_pairs < of_rows


def tile_bytes(rotation: Rotation, has_k: bool, whole_rows: bool) -> int:
    """Bytes of rows per program. k has few heads: with it, a large tile would be half empty."""
    computes_more = whole_rows and rotation.on_the_fly  # every pair's sine, twice
    waits_longer = rotation.looks_up_positions and not has_k
    return LARGER_TILE_BYTES if computes_more or waits_longer else TILE_BYTES


def positions_per_load(rotation: Rotation) -> int:
    """Positions whose cosines a warp should read together, to read more than 8 bytes a thread."""
    if rotation.sin is None:
        return 1
    row_bytes = rotation.rotary_dim // 2 * rotation.table.element_size()
    return max(1, BYTES_PER_LOAD // row_bytes)


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()
