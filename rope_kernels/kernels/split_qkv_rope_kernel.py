"""Take q, k and v out of a packed projection, and rotate q and k, in one launch.

A program has rows of q, of k, or of v. Rows are whole, by the parts of `norm_rope_kernel`.
Transposed, the same kernel is its own backward: it reads gradients of q, k and v, and writes those
of the projection.
"""

import triton
import triton.language as tl

from .norm_angles import angles_of_tokens
from .norm_arithmetic import computed, turn_as_planned
from .norm_rows import (
    count_row_blocks,
    load_row,
    rows_of,
    rows_of_v,
    store_row,
    tile_of_rows,
)
from .values import GivenPositions, Memory, Sizes, Table


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def split_qkv_rope_kernel(
    q_ptr,  # inputs, viewed as (s, b, h, d)
    k_ptr,
    v_ptr,
    q_out_ptr,  # outputs
    k_out_ptr,
    v_out_ptr,
    table_ptr,  # from here on as in `norm_rope_kernel`
    sin_ptr,
    cu_seqlens_ptr,
    starts_ptr,
    ids_ptr,
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k and of v
    s2,  # positions in the table
    sequences,  # number of packed sequences
    cp,  # context parallelism, `TwoChunks` or `EvenlyApart`; or None
    strides,  # `SplitStrides`
    head: tl.constexpr,  # `Head`: which elements turn
    tile: tl.constexpr,  # `Tile`: how much a program takes
    order: tl.constexpr,  # `Order`: which tile it takes
    lookup: tl.constexpr,  # `Lookup`: how it finds cosines and sines
    steps: tl.constexpr,  # `Steps`: what the rotation rounds
    packing: tl.constexpr,  # `Packing`: where heads of q lie
    TRANSPOSE: tl.constexpr,  # take gradients back
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    PACKED: tl.constexpr = cu_seqlens_ptr is not None
    q, k, v = Memory(q_ptr, strides.q), Memory(k_ptr, strides.k), Memory(v_ptr, strides.v)
    q_out, k_out = Memory(q_out_ptr, strides.q_out), Memory(k_out_ptr, strides.k_out)
    table = Table(table_ptr, sin_ptr, strides.table, s2)
    given = GivenPositions(seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, strides.ids, cp)

    # My tile: rows of q, of k, or of v.
    sizes = Sizes(seq_len, batch, q_heads, k_heads)
    mine, tokens, row_block = tile_of_rows(sizes, tile, order, WITH_V=True)
    q_blocks, k_blocks, _ = count_row_blocks(sizes, tile.rows, order.per_batch)
    if row_block >= q_blocks + k_blocks:
        # Copy v.
        rows = rows_of_v(mine, v, order.per_batch, packing.v_aligned)
        v_out = Memory(v_out_ptr, strides.v_out)
        out_rows = rows_of_v(mine, v_out, order.per_batch, packing.v_out_aligned)
        store_row(out_rows, load_row(rows, head), head)
    else:
        # Load everything before anything is used.
        rows = rows_of(mine, q, k, order.per_batch, order.aligned, packing.group)
        x = load_row(rows, head, head.reads_interleaved)
        if PACKED:  # the barrier is explained in `rope_kernel`
            tl.debug_barrier()

        # Cosines and sines of the angles of my tokens. Those past the last sequence pass through.
        angles = angles_of_tokens(tokens, given, table, head, lookup, STORED)
        cos_sin = angles.cos_sin
        does_turn = angles.in_sequence if PACKED else None

        # Turn in fp32 (fp64 for fp64).
        y = computed(x, mine.exists, head)
        y = turn_as_planned(y, cos_sin, does_turn, lookup.inverse, steps, STORED, TRANSPOSE)

        # Write every element once.
        out_rows = rows_of(
            mine, q_out, k_out, order.per_batch, order.out_aligned, packing.out_group
        )
        store_row(out_rows, y, head, head.writes_interleaved)
