"""The Triton kernel, told with the parts. No torch and no launching: `launch/` plans every call.

One program owns both members of its pairs, so every element is read once, written once, and may be
overwritten; and rows of a position share cos and sin. An argument that is None is not there, and
Triton leaves out the lines that need it.
"""

import triton
import triton.language as tl

from .angles import cos_sin_of_pairs
from .parts import load_pairs, pairs_of_block, per_token, rows_of_program, store_pairs, turn
from .positions import positions


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
    START: tl.constexpr,  # the first element that turns
    BLOCK_S: tl.constexpr,  # positions per program, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF, or that of all rows side by side, rounded up to a power of 2
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    ROWS_PER_BLOCK: tl.constexpr,  # rows side by side in BLOCK_HALF; more than 1 only without tail
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    PER_BATCH: tl.constexpr,  # a program has rows of one batch entry; False: all share their angles
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    ALIGNED: tl.constexpr,  # bytes that divide every address of a row; 0: what the compiler sees
    OUT_ALIGNED: tl.constexpr,  # the same of the outputs
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    READS_INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1 of the input
    WRITES_INTERLEAVED: tl.constexpr,  # and of the output
    OVER_POSITIONS: tl.constexpr,  # rows side by side are one head at so many positions
):
    pair, row_in_block, is_pair = pairs_of_block(HALF, BLOCK_HALF, ROWS_PER_BLOCK)
    t_pointers, out_pointers, t_stride, out_stride, exists, s, s_exists, b = rows_of_program(
        (q_ptr, q_out_ptr, q_heads, q_strides, q_out_strides),
        (k_ptr, k_out_ptr, k_heads, k_strides, k_out_strides),
        *(seq_len, batch, BLOCK_S, BLOCK_R),
        *(PER_BATCH, ROWS_OUTER, STRETCH, ALIGNED, OUT_ALIGNED),
        *(row_in_block, ROWS_PER_BLOCK, OVER_POSITIONS),
    )

    # Read every element once, first of all: the loads are in flight while cos and sin are computed.
    slices = t_pointers + tl.full((), START, tl.int64) * t_stride
    stored1, stored2 = load_pairs(
        slices, t_stride, exists, pair, is_pair, HALF, BLOCK_HALF, READS_INTERLEAVED
    )
    if TAIL > 0:
        tail_mask = exists & (tl.arange(0, BLOCK_TAIL) < TAIL)[None, None, :]
        column = tl.arange(0, BLOCK_TAIL).to(tl.int64)
        column = (column + tl.where(column < START, 0, 2 * HALF))[None, None, :]
        tail = tl.load(t_pointers + column * t_stride, tail_mask)

    # The search is a loop. ptxas would move the loads above down to their uses, after the loop, and
    # a program would wait for memory twice. It moves no load across a barrier.
    if cu_seqlens_ptr is not None:
        tl.debug_barrier()

    # Rotate in fp32 (fp64 for fp64), and round once.
    position, in_sequence = positions(
        s, s_exists, b, seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp
    )
    stored: tl.constexpr = q_ptr.dtype.element_ty
    table = table_ptr, sin_ptr, table_strides, s2
    token = per_token(position, OVER_POSITIONS), per_token(s_exists, OVER_POSITIONS), b, table
    cos1, sin1, cos2, sin2 = cos_sin_of_pairs(
        *(token, TABLE_UNIT, pair, is_pair, HALF),
        *(ONE_PER_PAIR, INTERLEAVED, stored, FAST_SINE),
    )
    y1, y2 = turn(stored1, stored2, cos1, sin1, cos2, sin2, TRANSPOSE, INVERSE)
    if cu_seqlens_ptr is not None:  # tokens past the last sequence pass through
        turns = per_token(in_sequence, OVER_POSITIONS)[:, None, :]
        y1, y2 = tl.where(turns, y1, stored1), tl.where(turns, y2, stored2)

    # Write every element once.
    slices = out_pointers + tl.full((), START, tl.int64) * out_stride
    store_pairs(
        slices, out_stride, y1, y2, exists, pair, is_pair, HALF, BLOCK_HALF, WRITES_INTERLEAVED
    )
    if TAIL > 0:
        tl.store(out_pointers + column * out_stride, tail, tail_mask)
