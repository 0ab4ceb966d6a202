"""The kernel of rows that are better aligned than their second halves.

`rope_kernel` pads each row to a power of two, and loads its halves apart. With a head dimension of
72 in bf16, every row is aligned to 16 bytes, but its second half to 8, and almost half of what its
threads hold is padding. Here a tile has lines, and a line has several whole rows side by side:

    | row 0 | row 1 | row 2 | left empty |

A column is an element. Each element is loaded a second time as the other member of its pair, and
that load comes from L1.

Pairs are half-split. All other rows are padded. A third tensor, v, is only copied: it comes with q
and k out of a packed projection (`move.py`).

Read `rope_kernel` in `kernel.py` first. It explains the arguments that have no comment here, and
that file has the other parts.
"""

import triton
import triton.language as tl

from .kernel import (
    SIZES,
    choose,
    find_cos_sin,
    find_positions,
    row_pointers,
    tile_of_program,
    turn,
)


@triton.jit(do_not_specialize=SIZES)
def wide_kernel(
    q_ptr,
    k_ptr,
    q_out_ptr,
    k_out_ptr,
    table_ptr,
    sin_ptr,
    cu_seqlens_ptr,
    starts_ptr,
    ids_ptr,
    first_position,
    # Like `first_position`, these differ from launch to launch: `varying` in `launch.run`.
    v_ptr,  # like k, but it is copied; or None
    v_out_ptr,
    seq_len,
    batch,
    q_heads,
    k_heads,
    ids_strides,
    table_strides,
    strides,  # of q, k, v, q_out, k_out and v_out
    table_len,
    sequences,
    cp_size,
    cp_rank,
    HALF: tl.constexpr,
    START: tl.constexpr,
    TAIL: tl.constexpr,
    POSITIONS: tl.constexpr,  # of a tile, a power of two; 1 if OVER_POSITIONS
    LINES: tl.constexpr,  # of a position in a tile, a power of two
    COLUMNS: tl.constexpr,  # of a line, a power of two
    SIDE_BY_SIDE: tl.constexpr,  # rows in a line
    OVER_POSITIONS: tl.constexpr,  # a line has one head at many positions, not heads of one
    ROWS_OUTER: tl.constexpr,
    STRETCH: tl.constexpr,
    ALIGNED: tl.constexpr,
    OUT_ALIGNED: tl.constexpr,
    TABLE_UNIT: tl.constexpr,
    READ_GROUP: tl.constexpr,  # packed qkv: so many heads of q, then one of k and one of v; else 0
    WRITE_GROUP: tl.constexpr,  # the same of what is written
    ONE_PER_PAIR: tl.constexpr,
    ATTENTION_FACTOR: tl.constexpr,
    CP_ORDER: tl.constexpr,
    INVERSE: tl.constexpr,
    TRANSPOSE: tl.constexpr,
    ROUNDING: tl.constexpr,
    FAST_SINE: tl.constexpr,
    IN_PLACE: tl.constexpr,  # results overwrite what is read
):
    POSITIONS_OF_TILE: tl.constexpr = SIDE_BY_SIDE if OVER_POSITIONS else POSITIONS
    ROWS_OF_LINE: tl.constexpr = 1 if OVER_POSITIONS else SIDE_BY_SIDE
    ROWS: tl.constexpr = LINES * ROWS_OF_LINE
    COLUMNS_OF_ROW: tl.constexpr = 2 * HALF + TAIL

    # My tile: rows of q, then those of k, then those of v.
    q_blocks, k_blocks = tl.cdiv(q_heads, ROWS), tl.cdiv(k_heads, ROWS)
    row_blocks = q_blocks
    if k_ptr is not None:
        row_blocks += k_blocks
    if v_ptr is not None:
        row_blocks += k_blocks
    s_block, row_block, b = tile_of_program(
        tl.program_id(0), tl.cdiv(seq_len, POSITIONS_OF_TILE), row_blocks, batch,
        ROWS_OUTER=ROWS_OUTER, STRETCH=STRETCH,
    )  # fmt: skip

    # My tensor: q, k or v.
    q_strides, k_strides, v_strides, q_out_strides, k_out_strides, v_out_strides = strides
    x_ptr, x_strides, heads = q_ptr, q_strides, q_heads
    y_ptr, y_strides = q_out_ptr, q_out_strides
    if k_ptr is not None:
        is_kv = row_block >= q_blocks  # mine are of k, or of v
        row_block -= tl.where(is_kv, q_blocks, 0)
        x_ptr, x_strides = tl.where(is_kv, k_ptr, q_ptr), choose(is_kv, k_strides, q_strides)
        heads = tl.where(is_kv, k_heads, q_heads)
        y_ptr = tl.where(is_kv, k_out_ptr, q_out_ptr)
        y_strides = choose(is_kv, k_out_strides, q_out_strides)
    if v_ptr is not None:
        is_v = row_block >= tl.where(is_kv, k_blocks, q_blocks)
        row_block -= tl.where(is_v, k_blocks, 0)
        x_ptr, x_strides = tl.where(is_v, v_ptr, x_ptr), choose(is_v, v_strides, x_strides)
        y_ptr, y_strides = tl.where(is_v, v_out_ptr, y_ptr), choose(is_v, v_out_strides, y_strides)

    # My columns: which row of its line each one is in, and which column of that row it is. What is
    # left of a line after its last row is empty.
    column = tl.arange(0, COLUMNS)
    row_in_line, column_in_row = column * 0, column
    if SIDE_BY_SIDE > 1:
        row_in_line, column_in_row = column // COLUMNS_OF_ROW, column % COLUMNS_OF_ROW
        column_in_row += unseen_zero()
    is_filled = column < SIDE_BY_SIDE * COLUMNS_OF_ROW

    # My positions and rows, in 64 bits: an offset may pass 2^31 elements.
    b = b.to(tl.int64)
    first_s = s_block.to(tl.int64) * POSITIONS_OF_TILE
    row = (row_block * ROWS + tl.arange(0, LINES) * ROWS_OF_LINE)[:, None]
    if OVER_POSITIONS:
        s_offset = row_in_line.to(tl.int64)
    else:
        s_offset = tl.arange(0, POSITIONS).to(tl.int64)
        if SIDE_BY_SIDE > 1:
            row += row_in_line[None, :]
    s = first_s + s_offset  # (positions,) or (columns,)
    s_exists = s < seq_len
    s_offset = per_token(s_offset, OVER_POSITIONS)
    token_exists = per_token(s_exists, OVER_POSITIONS)
    exists = token_exists[:, None, :] & (row < heads)[None, :, :] & is_filled[None, None, :]
    x_head, y_head = row, row
    if READ_GROUP > 0:  # step over the heads of k and v between those of q
        x_head += tl.where(is_kv, 0, row // READ_GROUP * 2)
    if WRITE_GROUP > 0:
        y_head += tl.where(is_kv, 0, row // WRITE_GROUP * 2)
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, x_head, b, ALIGNED=ALIGNED)
    y_rows = row_pointers(y_ptr, y_strides, first_s, s_offset, y_head, b, ALIGNED=OUT_ALIGNED)

    # Load each column's own element, and the other member of its pair.
    element, partner, has_pair = elements_of_rows(
        column_in_row, is_filled, HALF=HALF, START=START, TAIL=TAIL
    )
    x_d_stride, y_d_stride = x_strides[3], y_strides[3]
    start = tl.cast(START, tl.int64)
    x_rows += start * x_d_stride
    y_rows += start * y_d_stride
    x1 = tl.load(x_rows + (element * x_d_stride)[None, None, :], exists)
    x2 = tl.load(x_rows + (partner * x_d_stride)[None, None, :], exists)
    if v_ptr is not None:
        if is_v:  # v does not turn, so its elements only go where they belong.
            tl.store(y_rows + (element * y_d_stride)[None, None, :], x1, exists)
            return
    if cu_seqlens_ptr is not None:
        tl.debug_barrier()  # `rope_kernel` says why.

    # Cosines and sines of my tokens' angles.
    position, in_sequence = find_positions(
        s, s_exists, b, cu_seqlens_ptr, starts_ptr, ids_ptr, first_position, ids_strides, seq_len,
        sequences, cp_size, cp_rank, CP_ORDER=CP_ORDER,
    )  # fmt: skip
    ON_THE_FLY: tl.constexpr = table_ptr.dtype.element_ty == tl.int64
    if ON_THE_FLY and POSITIONS == 1 and not OVER_POSITIONS:
        # A line of one position needs a sine for each column. In one dimension warps share these
        # among them. In two, (1, columns), each warp would evaluate all of them.
        position = tl.broadcast_to(position, (COLUMNS,))
    else:
        position = per_token(position, OVER_POSITIONS)
    pair = tl.where(element < HALF, element, partner)
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position, token_exists, b, pair, has_pair, element, partner,
        table_ptr, sin_ptr, table_strides, table_len,
        TABLE_UNIT=TABLE_UNIT, ONE_PER_PAIR=ONE_PER_PAIR, INTERLEAVED=False,
        ATTENTION_FACTOR=ATTENTION_FACTOR, INVERSE=INVERSE, FAST_SINE=FAST_SINE,
        STORED=q_ptr.dtype.element_ty,
    )  # fmt: skip

    # Turn, and store every element once.
    # `turn` gives y1 = cos x1 - sin x2, for the first member of a pair. A second member is in x1
    # too, with its partner in x2, so its sine has the other sign.
    is_first = (element < HALF)[None, None, :]
    sin1, sin2 = tl.where(is_first, sin1, -sin1), tl.where(is_first, sin2, -sin2)
    is_rotated = None
    if cu_seqlens_ptr is not None:
        is_rotated = per_token(in_sequence, OVER_POSITIONS)[:, None, :]
    y1, _ = turn(
        x1, x2, cos1, sin1, cos2, sin2, is_rotated,
        TRANSPOSE=TRANSPOSE, ROUNDING=ROUNDING, COMPUTES_COS_SIN=sin_ptr is None,
        RETURNED=q_out_ptr.dtype.element_ty,
    )  # fmt: skip
    if TAIL > 0:
        y1 = tl.where(has_pair[None, None, :], y1, x1)
    if IN_PLACE:
        # Two threads have loaded each element. Both must have it before one of them overwrites it.
        tl.debug_barrier()
    tl.store(y_rows + (element * y_d_stride)[None, None, :], y1, exists)


@triton.jit
def per_token(x, OVER_POSITIONS: tl.constexpr):
    """A value of each token, (positions,) or (columns,), as (positions, 1) or (1, columns)."""
    return x[None, :] if OVER_POSITIONS else x[:, None]


@triton.jit
def unseen_zero():
    """0, which the compiler does not know: it sees a multiple of 65536. Grids have one dimension.

    This works around a bug. LLVM computes the remainder of a small number in 16 bits, and packs
    sums with it in pairs (`add.s16x2`). ptxas 12.8 for sm_90 then compares halves of such a pair as
    if nothing had been added. With this zero added, sums have 32 bits or more.
    """
    return tl.program_id(1) * 65536


@triton.jit
def elements_of_rows(
    column_in_row, is_filled, HALF: tl.constexpr, START: tl.constexpr, TAIL: tl.constexpr
):
    """For each column: its own element, the other member of its pair, and whether it has one.

    Elements are counted from START on. An element of the tail is its own partner. Without a tail a
    row is its rotary slice alone, so it begins at START.
    """
    element = column_in_row.to(tl.int64) - (START if TAIL > 0 else 0)
    has_pair = (element >= 0) & (element < 2 * HALF)
    partner = tl.where(element < HALF, element + HALF, element - HALF)
    if TAIL > 0:
        partner = tl.where(has_pair, partner, element)
    return element, partner, is_filled & has_pair
