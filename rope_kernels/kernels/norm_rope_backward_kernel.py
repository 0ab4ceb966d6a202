"""Normalize and rotate in one kernel: the backward, told with the parts.

A program has the same rows of q or k at many positions, one tile after the other. It keeps its
share of the weight's gradient in registers, and writes it once, at its end. `sum_partials_kernel`
adds the shares in a fixed order, so the bits are the same in every run; atomics would add them in
the order of arrival.
"""

import triton
import triton.language as tl

from .norm_angles import angles_of_tile
from .norm_arithmetic import computed, weights_of
from .norm_gradient import (
    input_gradient,
    load_tile,
    normal_and_gradient,
    plus_products,
    store_sums,
    zeros_like_rows,
)
from .norm_rows import pointer_of, rows_and_share, store_numbers, store_rows, tile_of_share


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "chunks"])
def norm_rope_backward_kernel(
    q_grad_ptr,  # gradient of the output, viewed as (s, b, h, d)
    k_grad_ptr,  # or None; so in all pairs of q and k
    q_ptr,  # input of the forward
    k_ptr,
    q_out_ptr,  # gradient of the input; or None, if nobody wants it
    k_out_ptr,
    q_weight_ptr,  # (d,) or (h, d), or None
    k_weight_ptr,
    q_rstd_ptr,  # viewed as (s, b, h, 1): 1 / rms of each row
    k_rstd_ptr,
    q_sumsq_ptr,  # gradient of the sums of squares that came from elsewhere; or None
    k_sumsq_ptr,
    q_partial_ptr,  # (shares, d): sums of the weight's gradient over the rows of each program
    k_partial_ptr,  # ... or with PER_HEAD (chunks, h, d), the gradient itself; None: not wanted
    table_ptr,  # from here on as in `norm_rope_kernel`
    sin_ptr,
    starts_ptr,
    ids_ptr,
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    cp,  # (cp_size, cp_rank): this rank has two chunks of every sequence; or None
    chunks,  # programs that share the positions of the same rows, or with FOLD their tiles
    q_grad_strides,  # of s, b, h, d; in elements, any
    k_grad_strides,
    q_strides,
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
    BLOCK_S: tl.constexpr,  # positions of a tile, a power of two
    BLOCK_R: tl.constexpr,  # rows of a tile, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    STAGES: tl.constexpr,  # tiles in flight
    WEIGHT_OFFSET: tl.constexpr,  # added to the weight
    NORM_DIM: tl.constexpr,  # number of squares in a sum
    NORM_AFTER: tl.constexpr,  # the rotated row was normalized
    LIKE_MODEL: tl.constexpr,  # cos and sin were rounded
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    FOLD: tl.constexpr,  # a program goes through batch entries too, and unless PER_HEAD all rows
    GIVEN: tl.constexpr,  # the sums of squares came from elsewhere
    PACKED: tl.constexpr,  # the ids are those that the forward wrote for packed tokens
    INVERSE: tl.constexpr,  # sines were negated
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    PER_BATCH: tl.constexpr,  # a program has rows of one batch entry; False: all share their angles
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    ALIGNED: tl.constexpr,  # bytes that divide every address of a row of what was kept
    GRAD_ALIGNED: tl.constexpr,  # of the output's gradient
    OUT_ALIGNED: tl.constexpr,  # of the input's gradient
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    READS_INTERLEAVED: tl.constexpr,  # a pair was elements 2i and 2i + 1 of the input
    WRITES_INTERLEAVED: tl.constexpr,  # and of the output
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    WEIGHT_INTERLEAVED: tl.constexpr = WRITES_INTERLEAVED if NORM_AFTER else READS_INTERLEAVED

    # My rows, of q or of k, and my share of their tiles.
    is_k, row, row_exists, heads, b, chunk, share, tiles = rows_and_share(
        *(seq_len, batch, q_heads, k_heads, chunks, BLOCK_S, BLOCK_R),
        *(PER_BATCH, ROWS_OUTER, PER_HEAD, FOLD),
    )
    weights = weights_of(
        *(is_k, q_weight_ptr, k_weight_ptr, row, heads, WEIGHT_OFFSET, PER_HEAD, COMPUTED),
        *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, WEIGHT_INTERLEAVED),
    )
    where = seq_len, None, 0, starts_ptr, ids_ptr, ids_strides, cp
    sums = zeros_like_rows(BLOCK_S, BLOCK_R, BLOCK_HALF, BLOCK_TAIL, COMPUTED)
    for tile in tl.range(chunk, tiles, chunks, num_stages=STAGES):
        s, exists, place = tile_of_share(
            *(tile, row, row_exists, heads, b, seq_len, batch),
            *(BLOCK_S, BLOCK_R, PER_BATCH, PER_HEAD, FOLD),
        )
        # Read the gradient, and what the forward kept.
        grad, kept, rstd = load_tile(
            is_k,
            ((q_grad_ptr, q_grad_strides), (k_grad_ptr, k_grad_strides)),
            ((q_ptr, q_strides), (k_ptr, k_strides)),
            ((q_rstd_ptr, q_rstd_strides), (k_rstd_ptr, k_rstd_strides)),
            *(place, exists, PER_BATCH, GRAD_ALIGNED, ALIGNED, HALF, TAIL, START),
            *(BLOCK_HALF, BLOCK_TAIL, WRITES_INTERLEAVED, READS_INTERLEAVED),
        )
        angles, _ = angles_of_tile(
            *(s, place[3], where, (table_ptr, sin_ptr, table_strides, s2), STORED, HALF),
            *(BLOCK_HALF, INTERLEAVED, ONE_PER_PAIR, TABLE_UNIT, PACKED, FAST_SINE, LIKE_MODEL),
        )

        # Back through the rotation; my share of the weight's gradient; through weights and norm.
        normal, grad = normal_and_gradient(
            *(computed(kept, exists, HALF, TAIL), computed(grad, exists, HALF, TAIL), rstd),
            *(angles, exists, HALF, TAIL, NORM_AFTER, PACKED, INVERSE),
        )
        if q_partial_ptr is not None:
            sums = plus_products(sums, grad, normal, TAIL)
        out, of_sumsq = input_gradient(
            *(grad, normal, rstd, weights, angles, TAIL, NORM_DIM, NORM_AFTER),
            *(GIVEN, PACKED, INVERSE),
        )
        if q_out_ptr is not None:
            q_out, k_out = (q_out_ptr, q_out_strides), (k_out_ptr, k_out_strides)
            store_rows(
                *(is_k, q_out, k_out, place, exists, out, PER_BATCH, OUT_ALIGNED),
                *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, READS_INTERLEAVED),
            )
        q_sumsq, k_sumsq = (q_sumsq_ptr, q_sumsq_strides), (k_sumsq_ptr, k_sumsq_strides)
        store_numbers(is_k, q_sumsq, k_sumsq, place, exists, of_sumsq, PER_BATCH)

    if q_partial_ptr is not None:
        store_sums(
            *(pointer_of(is_k, q_partial_ptr, k_partial_ptr), sums, row),
            *(row_exists, share, share * heads, PER_HEAD),
            *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, WEIGHT_INTERLEAVED),
        )
