"""The Triton kernel, told with the parts. No torch and no launching: `launch.py` plans every call.

One program owns both members of its pairs, so every element is read once, written once, and may be
overwritten; and it computes cos and sin once for all its rows of a position. An argument that is
None is not there, and Triton leaves out the lines that need it.
"""

import triton
import triton.language as tl

from .parts import (
    choose_strides,
    cos_sin,
    load_pairs,
    positions,
    row_pointers,
    store_pairs,
    tile_of_program,
    turn,
)


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def rope_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, of any strides too, or None
    q_out_ptr,  # outputs, of any strides too; they may be the inputs
    k_out_ptr,
    table_ptr,  # angles or cosines, (b, s2, d2); or int64, (d2 / 2,): 2^-64 turns per position
    sin_ptr,  # sines, if the table holds cosines, or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, and the last ends; or None
    starts_ptr,  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    sequences,  # number of packed sequences
    cp,  # (cp_size, cp_rank): this rank has two chunks of every sequence; or None
    q_strides,  # of s, b, h, d; in elements, any
    k_strides,
    q_out_strides,
    k_out_strides,
    table_strides,  # of b, s, d; any
    ids_strides,  # of b, s; any
    HALF: tl.constexpr,  # d2 / 2, number of pairs
    TAIL: tl.constexpr,  # elements passed through: d - d2, or 0 in place
    BLOCK_S: tl.constexpr,  # positions per program, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
    PER_BATCH: tl.constexpr,  # a program has rows of one batch entry; False: all share their angles
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
):
    # My tile. The rows of k follow those of q: they turn by the same angles.
    entries = batch if PER_BATCH else 1
    q_rows, k_rows = q_heads * (batch // entries), k_heads * (batch // entries)
    q_blocks = (q_rows - 1) // BLOCK_R + 1
    row_blocks = q_blocks
    if k_ptr is not None:
        row_blocks += (k_rows - 1) // BLOCK_R + 1
    s_blocks = (seq_len - 1) // BLOCK_S + 1
    s_block, row_block, b = tile_of_program(s_blocks, row_blocks, entries, ROWS_OUTER, STRETCH)

    # My tensor.
    heads, rows, t_ptr, out_ptr = q_heads, q_rows, q_ptr, q_out_ptr
    t_strides, out_strides = q_strides, q_out_strides
    if k_ptr is not None:
        is_k = row_block >= q_blocks
        row_block -= tl.where(is_k, q_blocks, 0)
        heads, rows = tl.where(is_k, k_heads, q_heads), tl.where(is_k, k_rows, q_rows)
        t_ptr, out_ptr = tl.where(is_k, k_ptr, q_ptr), tl.where(is_k, k_out_ptr, q_out_ptr)
        t_strides = choose_strides(is_k, k_strides, q_strides)
        out_strides = choose_strides(is_k, k_out_strides, q_out_strides)

    # My rows. 64-bit from here on: an offset may pass 2^31 elements.
    b = b.to(tl.int64)
    s = s_block.to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
    row = row_block * BLOCK_R + tl.arange(0, BLOCK_R)
    t_pointers = row_pointers(t_ptr, t_strides, s, row, b, heads, PER_BATCH)
    out_pointers = row_pointers(out_ptr, out_strides, s, row, b, heads, PER_BATCH)
    s_exists = s < seq_len
    exists = (s_exists[:, None] & (row < rows)[None, :])[:, :, None]

    # Read every element once, first of all: the loads are in flight while cos and sin are computed.
    stored1, stored2 = load_pairs(t_pointers, t_strides[3], exists, HALF, BLOCK_HALF, INTERLEAVED)
    if TAIL > 0:
        tail_mask = exists & (tl.arange(0, BLOCK_TAIL) < TAIL)[None, None, :]
        column = (2 * HALF + tl.arange(0, BLOCK_TAIL).to(tl.int64))[None, None, :]
        tail = tl.load(t_pointers + column * t_strides[3], tail_mask)

    # Rotate in fp32 (fp64 for fp64), and round once.
    position, in_sequence = positions(
        s, s_exists, b, seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp
    )
    stored: tl.constexpr = q_ptr.dtype.element_ty
    cos1, sin1, cos2, sin2 = cos_sin(
        *(position, s_exists, b, table_ptr, sin_ptr, table_strides, s2),
        *(stored, HALF, BLOCK_HALF, INTERLEAVED, FAST_SINE),
    )
    y1, y2 = turn(stored1, stored2, cos1, sin1, cos2, sin2, TRANSPOSE)
    if cu_seqlens_ptr is not None:  # tokens past the last sequence pass through
        y1 = tl.where(in_sequence[:, None, None], y1, stored1)
        y2 = tl.where(in_sequence[:, None, None], y2, stored2)

    # Write every element once.
    store_pairs(out_pointers, out_strides[3], y1, y2, exists, HALF, BLOCK_HALF, INTERLEAVED)
    if TAIL > 0:
        tl.store(out_pointers + column * out_strides[3], tail, tail_mask)
