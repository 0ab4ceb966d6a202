"""Normalize and rotate in one kernel: the forward, told with the parts.

x -> y = rope(weight * x / rms(x)), or y = weight * z / rms(z) of z = rope(x). A program has whole
rows, so a row is read once, its squares are summed in registers, and y is written once.
"""

import triton
import triton.language as tl

from .norm_angles import angles_of_tile, store_positions
from .norm_arithmetic import computed, dot, normalized, turn_row, weights_of, zero_outside
from .norm_rows import load_numbers, load_rows, store_numbers, store_rows, tile_of_rows


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def norm_rope_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, or None; so in all pairs of q and k
    q_out_ptr,  # outputs; they may be the inputs
    k_out_ptr,
    q_weight_ptr,  # (d,) or (h, d), or None
    k_weight_ptr,
    q_rstd_ptr,  # output, viewed as (s, b, h, 1): 1 / rms of each row; or None
    k_rstd_ptr,
    q_sumsq_ptr,  # viewed as (s, b, h, 1): sums of squares from elsewhere; or None
    k_sumsq_ptr,
    positions_ptr,  # output, (s,) int64: where packed tokens are, for the backward; or None
    table_ptr,  # angles or cosines, (b, s2, columns); or int64, (d2 / 2,): 2^-64 turns a position
    sin_ptr,  # sines, if the table holds cosines, or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, and the last ends; or None
    starts_ptr,  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    cp,  # (cp_size, cp_rank): this rank has two chunks of every sequence; or None
    sequences,  # number of packed sequences
    q_strides,  # of s, b, h, d; in elements, any
    k_strides,
    q_out_strides,
    k_out_strides,
    q_rstd_strides,
    k_rstd_strides,
    q_sumsq_strides,
    k_sumsq_strides,
    table_strides,  # of b, s, d; any
    ids_strides,  # of b, s; any
    HALF: tl.constexpr,  # d2 / 2, number of pairs
    TAIL: tl.constexpr,  # d - d2, elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_S: tl.constexpr,  # positions per program, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    EPS: tl.constexpr,  # added to the mean of squares
    WEIGHT_OFFSET: tl.constexpr,  # added to the weight
    NORM_DIM: tl.constexpr,  # number of squares in a sum
    NORM_AFTER: tl.constexpr,  # normalize the rotated row
    LIKE_MODEL: tl.constexpr,  # round where PyTorch's operators would; False: once
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    WEIGHTS_LAST: tl.constexpr,  # they are loaded after the elements
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
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    WEIGHT_INTERLEAVED: tl.constexpr = WRITES_INTERLEAVED if NORM_AFTER else READS_INTERLEAVED
    PACKED: tl.constexpr = cu_seqlens_ptr is not None

    # My tile: rows of q, or of k.
    is_k, row_block, s, exists, place = tile_of_rows(
        seq_len, batch, q_heads, k_heads, BLOCK_S, BLOCK_R, PER_BATCH, ROWS_OUTER, STRETCH
    )
    _, _, row, b, heads = place

    # Load everything before anything is used. The order decides how many registers it takes:
    # benchmarks/NOTES.md has it measured. The barrier is explained in `rope_kernel`.
    if not WEIGHTS_LAST:
        weights = weights_of(
            *(is_k, q_weight_ptr, k_weight_ptr, row, heads, WEIGHT_OFFSET, PER_HEAD, COMPUTED),
            *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, WEIGHT_INTERLEAVED),
        )
    stored = load_rows(
        *(is_k, (q_ptr, q_strides), (k_ptr, k_strides), place, exists, PER_BATCH, ALIGNED),
        *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, READS_INTERLEAVED),
    )
    if WEIGHTS_LAST:
        weights = weights_of(
            *(is_k, q_weight_ptr, k_weight_ptr, row, heads, WEIGHT_OFFSET, PER_HEAD, COMPUTED),
            *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, WEIGHT_INTERLEAVED),
        )
    if PACKED:
        tl.debug_barrier()
    where = seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp
    angles, position = angles_of_tile(
        *(s, b, where, (table_ptr, sin_ptr, table_strides, s2), STORED, HALF, BLOCK_HALF),
        *(INTERLEAVED, ONE_PER_PAIR, TABLE_UNIT, False, FAST_SINE, LIKE_MODEL),
    )

    # Normalize and rotate in fp32 (fp64 for fp64), or the other way round.
    y = computed(stored, exists, HALF, TAIL)
    if NORM_AFTER:
        y = turn_row(y, angles, PACKED, False, INVERSE, LIKE_MODEL, STORED)
        y = zero_outside(y, exists, HALF, TAIL)
    sumsq = dot(y, y, TAIL)
    if q_sumsq_ptr is not None:
        q_sumsq, k_sumsq = (q_sumsq_ptr, q_sumsq_strides), (k_sumsq_ptr, k_sumsq_strides)
        sumsq = load_numbers(is_k, q_sumsq, k_sumsq, place, exists, PER_BATCH)
    rstd = tl.rsqrt(sumsq * (1 / NORM_DIM) + EPS)
    y = normalized(y, rstd, weights, LIKE_MODEL, STORED)
    if not NORM_AFTER:
        y = turn_row(y, angles, PACKED, False, INVERSE, LIKE_MODEL, STORED)

    # Write every element once, and what the backward needs.
    store_rows(
        *(is_k, (q_out_ptr, q_out_strides), (k_out_ptr, k_out_strides), place, exists, y),
        *(PER_BATCH, OUT_ALIGNED, HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, WRITES_INTERLEAVED),
    )
    q_rstd, k_rstd = (q_rstd_ptr, q_rstd_strides), (k_rstd_ptr, k_rstd_strides)
    store_numbers(is_k, q_rstd, k_rstd, place, exists, rstd, PER_BATCH)
    if positions_ptr is not None:
        store_positions(positions_ptr, s, position, angles[4], (s < seq_len) & (row_block == 0))
