"""The kernel that turns q and k, and copies v: out of a packed projection, or into a cache.

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
    load_rows,
    place_of_tile,
    row_pointers,
    store_rows,
    tile_of_program,
    turn,
    whole_units,
)


@triton.jit(do_not_specialize=[*SIZES, "listed", "cache_slots"])
def move_kernel(
    q_ptr,
    k_ptr,
    q_out_ptr,
    k_out_ptr,  # with slots a cache, (blocks, page, h, d); so is `v_out_ptr`
    table_ptr,
    sin_ptr,
    cu_seqlens_ptr,
    starts_ptr,
    ids_ptr,
    first_position,
    # Like `first_position`, these differ from launch to launch: `varying` in `launch.run`.
    v_ptr,  # like k, but it is copied
    v_out_ptr,
    slots_ptr,  # (listed,): where in the caches tokens go; negative: nowhere; or None: no cache
    seq_len,
    batch,
    q_heads,
    k_heads,  # heads of k, and of v
    listed,  # tokens, from the first one on, that have an entry in `slots_ptr`
    ids_strides,
    table_strides,
    strides,  # of q, k, v, q_out, k_out, v_out: each of s, b, h, d; a cache's of block, page, h, d
    table_len,
    sequences,
    cp_size,
    cp_rank,
    cache_slots,  # slots of a cache: blocks * page
    page,  # slots of a block
    HALF: tl.constexpr,
    START: tl.constexpr,
    TAIL: tl.constexpr,
    READS_INTERLEAVED: tl.constexpr,
    WRITES_INTERLEAVED: tl.constexpr,
    POSITIONS: tl.constexpr,
    ROWS: tl.constexpr,
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
):
    # My tile: rows of q, then those of k, then those of v.
    q_blocks, k_blocks = tl.cdiv(q_heads, ROWS), tl.cdiv(k_heads, ROWS)
    s_block, row_block, b = tile_of_program(
        tl.program_id(0), tl.cdiv(seq_len, POSITIONS), q_blocks + 2 * k_blocks, batch,
        ROWS_OUTER=ROWS_OUTER, STRETCH=STRETCH,
    )  # fmt: skip

    # My tensor: q, k or v.
    q_strides, k_strides, v_strides, q_out_strides, k_out_strides, v_out_strides = strides
    is_kv, is_v = row_block >= q_blocks, row_block >= q_blocks + k_blocks
    row_block -= tl.where(is_kv, q_blocks, 0) + tl.where(is_v, k_blocks, 0)
    heads = tl.where(is_kv, k_heads, q_heads)
    x_ptr = tl.where(is_v, v_ptr, tl.where(is_kv, k_ptr, q_ptr))
    x_strides = choose(is_v, v_strides, choose(is_kv, k_strides, q_strides))
    y_ptr = tl.where(is_v, v_out_ptr, tl.where(is_kv, k_out_ptr, q_out_ptr))
    y_strides = choose(is_v, v_out_strides, choose(is_kv, k_out_strides, q_out_strides))

    # My positions and rows.
    first_s, s_offset, s, row, b = place_of_tile(
        s_block, row_block, b, POSITIONS=POSITIONS, ROWS=ROWS
    )
    s_exists = s < seq_len
    exists = s_exists[:, None, None] & (row < heads)[None, :, :]
    x_head, y_head = row, row
    if READ_GROUP > 0:  # step over the heads of k and v between those of q
        x_head += tl.where(is_kv, 0, row // READ_GROUP * 2)
    if WRITE_GROUP > 0:
        y_head += tl.where(is_kv, 0, row // WRITE_GROUP * 2)
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, x_head, b, ALIGNED=ALIGNED)
    if slots_ptr is None:
        y_rows = row_pointers(y_ptr, y_strides, first_s, s_offset, y_head, b, ALIGNED=OUT_ALIGNED)
    else:  # The slot is loaded now and used last, so no other load waits for it.
        slot = tl.load(slots_ptr + s, s < listed, other=-1)

    # A row of a table can't be loaded before the token's id is there. So the id is loaded first.
    # On the fly nothing waits for it that long: there it would only delay the rows.
    IDS_FIRST: tl.constexpr = ids_ptr is not None and table_ptr.dtype.element_ty != tl.int64
    if IDS_FIRST:
        position, in_sequence = find_positions(
            s, s_exists, b, cu_seqlens_ptr, starts_ptr, ids_ptr, first_position, ids_strides,
            seq_len, sequences, cp_size, cp_rank, CP_ORDER=CP_ORDER,
        )  # fmt: skip

    # Load every element once.
    pair = tl.arange(0, triton.next_power_of_2(HALF)).to(tl.int64)
    x1, x2, tail = load_rows(
        x_rows, x_strides[3], pair, exists,
        HALF=HALF, START=START, TAIL=TAIL, INTERLEAVED=READS_INTERLEAVED,
    )  # fmt: skip

    # v does not turn, and stays in the order that it was read in.
    if is_v:
        if slots_ptr is None:
            v_rows, is_written = y_rows, exists
        else:
            v_rows, is_written = cache_pointers(
                y_ptr, y_strides, s, y_head, exists, is_kv, slot, cache_slots, page,
                ALIGNED=OUT_ALIGNED,
            )  # fmt: skip
        store_rows(
            v_rows, y_strides[3], pair, x1, x2, tail, is_written,
            HALF=HALF, START=START, TAIL=TAIL, INTERLEAVED=READS_INTERLEAVED,
        )  # fmt: skip
        return

    # q and k turn, as in `rope_kernel`.
    if cu_seqlens_ptr is not None:
        tl.debug_barrier()
    if not IDS_FIRST:
        position, in_sequence = find_positions(
            s, s_exists, b, cu_seqlens_ptr, starts_ptr, ids_ptr, first_position, ids_strides,
            seq_len, sequences, cp_size, cp_rank, CP_ORDER=CP_ORDER,
        )  # fmt: skip
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position[:, None], s_exists[:, None], b, pair, pair < HALF, pair, pair + HALF,
        table_ptr, sin_ptr, table_strides, table_len,
        TABLE_UNIT=TABLE_UNIT, ONE_PER_PAIR=ONE_PER_PAIR,
        INTERLEAVED=READS_INTERLEAVED or WRITES_INTERLEAVED,
        ATTENTION_FACTOR=ATTENTION_FACTOR, INVERSE=INVERSE, FAST_SINE=FAST_SINE,
        STORED=q_ptr.dtype.element_ty,
    )  # fmt: skip
    is_rotated = None
    if cu_seqlens_ptr is not None:
        is_rotated = in_sequence[:, None, None]
    y1, y2 = turn(
        x1, x2, cos1, sin1, cos2, sin2, is_rotated,
        TRANSPOSE=TRANSPOSE, ROUNDING=ROUNDING, COMPUTES_COS_SIN=sin_ptr is None,
        RETURNED=q_out_ptr.dtype.element_ty,
    )  # fmt: skip
    if slots_ptr is not None:
        y_rows, exists = cache_pointers(
            y_ptr, y_strides, s, y_head, exists, is_kv, slot, cache_slots, page,
            ALIGNED=OUT_ALIGNED,
        )  # fmt: skip
    store_rows(
        y_rows, y_strides[3], pair, y1, y2, tail, exists,
        HALF=HALF, START=START, TAIL=TAIL, INTERLEAVED=WRITES_INTERLEAVED,
    )  # fmt: skip


@triton.jit
def cache_pointers(
    # What is written.
    ptr,  # a cache; where rows are of q, q's output
    strides,  # a cache's of block, page, h and d; those of q's output of s, b, h and d
    # Which rows a program has.
    s,  # int64: my tokens
    row,  # (rows, 1): where heads go
    exists,  # whether a row is there
    is_kv,  # whether they go into a cache
    # Where in a cache they go.
    slot,  # of each token, as it is listed
    cache_slots,
    page,
    # What Triton may assume: see `whole_units`.
    ALIGNED: tl.constexpr,
):
    """Pointers to element 0 of each row at its token's slot, and which rows are written.

    Rows of q go to their tokens in q's output, whatever the slot is. Both share this code, so each
    number is chosen before it meets a stride. If one of two products were chosen, Triton 3.9 would
    not see that 16 divides the offset, and would store 2 bytes at a time.
    """
    slot = slot.to(tl.int64)
    has_slot = (slot >= 0) & (slot < cache_slots)
    # In 32 bits if all slots fit: a 64-bit division takes longer than the rest of a short call.
    slot = tl.where(has_slot, slot, 0).to(cache_slots.dtype)
    block = slot // page
    place = (slot - block * page).to(tl.int64)
    token_stride, place_stride, h_stride = whole_units(ptr, strides, ALIGNED)
    token = tl.where(is_kv, block.to(tl.int64), s) * token_stride
    token += place * tl.where(is_kv, place_stride, 0)
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    offset = token[:, None, None] + (row.to(tl.int64) * h_stride)[None, :, :]
    has_place = has_slot | (is_kv == 0)
    return ptr + offset, exists & has_place[:, None, None]
