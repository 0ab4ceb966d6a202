"""Which tile a Triton program takes, and in which order programs take them: the tuned numbers."""

from torch import Tensor

from .rotation import Rotation

# Sizes measured on an H200; benchmarks/NOTES.md tells what was tried.
# Bytes of rows per program, powers of two: 4 or 8 loads of 16 bytes per thread of its one warp,
# which needs no barrier to share cos and sin. A program that looks up its positions waits longer
# before it can start, and gets more to do.
TILE_BYTES = 2048
TILE_BYTES_AFTER_LOOKUP = 4096
# A stretch has as many positions as keep a table's rows in L2 until all batch entries, or all
# heads, have used them.
STRETCH_OF_BATCH = 1024
STRETCH_OF_ROWS = 4096
WHOLE = 2**30  # where there is no table, or batch entries do not share its rows
BYTES_PER_WARP = 4096  # of a row that is larger than a tile
MAX_WARPS = 8
MAX_ROWS = 2**31  # rows are counted in 32 bits
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


def block_sizes(
    half: int, tail: int, rows: int, element_bytes: int, tile_bytes: int, positions: int = 1
) -> dict[str, int]:
    """Tile of one program: whole rows, first of one position, then of several, up to a fixed size.

    At least `positions` positions, if the tile has room for them. One warp, unless a single row is
    already too much for it. The sequence length plays no part, so no new length compiles a new
    kernel.
    """
    block_half = _next_power_of_2(half)
    block_tail = _next_power_of_2(tail) if tail else 0
    row_bytes = _next_power_of_2(2 * block_half + block_tail) * element_bytes
    rows_that_fit = max(1, tile_bytes // row_bytes)
    rows_a_position = max(1, rows_that_fit // _next_power_of_2(positions))
    block_r = min(_next_power_of_2(rows), rows_a_position)
    return {
        "BLOCK_S": rows_that_fit // block_r,
        "BLOCK_R": block_r,
        "BLOCK_HALF": block_half,
        "BLOCK_TAIL": block_tail,
        "num_warps": min(MAX_WARPS, max(1, row_bytes // BYTES_PER_WARP)),
    }


def tile_bytes(rotation: Rotation, has_k: bool) -> int:
    """Bytes of rows per program. k has few heads: with it, a large tile would be half empty."""
    return TILE_BYTES_AFTER_LOOKUP if rotation.looks_up_positions and not has_k else TILE_BYTES


def positions_per_load(rotation: Rotation) -> int:
    """Positions whose cosines a warp should read together, to read more than 8 bytes a thread."""
    if rotation.sin is None:
        return 1
    row_bytes = rotation.rotary_dim // 2 * rotation.table.element_size()
    return max(1, BYTES_PER_LOAD // row_bytes)


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()
