"""Normalize and rotate in one kernel: the backward, told with the parts.

A program has the same rows of q or k at many positions, one tile after the other. It keeps its
share of the weight's gradient in registers, and writes it once, at its end. `sum_partials_kernel`
adds the shares in a fixed order, so the bits are the same in every run; atomics would add them in
the order of arrival.
"""

import triton
import triton.language as tl

from .norm_angles import angles_of_tokens, rounded_cos_sin
from .norm_arithmetic import computed, times_number, turn_row, weights_of, zero_outside
from .norm_gradient import input_gradient, plus_products, store_sums, zeros_of_rows
from .norm_rows import (
    load_numbers,
    load_row,
    rows_of,
    share_of_program,
    store_row,
    tile_of_share,
)
from .parts import pointer_of
from .values import GivenPositions, Memory, Sizes, Table


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "chunks"])
def norm_rope_backward_kernel(
    q_grad_ptr,  # gradient of the output, viewed as (s, b, h, d)
    k_grad_ptr,  # or None; so in all pairs of q and k
    q_ptr,  # input of the forward
    k_ptr,
    q_out_ptr,  # gradient of the input; or None, if nobody wants it
    k_out_ptr,
    q_weight_ptr,  # (d,), or None
    k_weight_ptr,
    q_rstd_ptr,  # viewed as (s, b, h, 1): 1 / rms of each row
    k_rstd_ptr,
    q_partial_ptr,  # (shares, d): sums of the weight's gradient over the rows of each program
    k_partial_ptr,  # None: not wanted
    table_ptr,  # from here on as in `norm_rope_kernel`
    sin_ptr,
    starts_ptr,
    ids_ptr,
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    cp,  # context parallelism, `TwoChunks` or `EvenlyApart`; or None
    chunks,  # programs that share the positions of the same rows, or with `order.fold` their tiles
    strides,  # `NormBackwardStrides`
    head: tl.constexpr,  # `Head`: which elements turned
    tile: tl.constexpr,  # `Tile`: how much a program takes at a time
    order: tl.constexpr,  # `BackwardOrder`: which tiles it takes
    lookup: tl.constexpr,  # `Lookup`: how it finds cosines and sines
    norm: tl.constexpr,  # `NormBackward`
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    WEIGHT_INTERLEAVED: tl.constexpr = (
        head.writes_interleaved if norm.after else head.reads_interleaved
    )
    q_grad, k_grad = Memory(q_grad_ptr, strides.q_grad), Memory(k_grad_ptr, strides.k_grad)
    q, k = Memory(q_ptr, strides.q), Memory(k_ptr, strides.k)
    q_out, k_out = Memory(q_out_ptr, strides.q_out), Memory(k_out_ptr, strides.k_out)
    q_rstd, k_rstd = Memory(q_rstd_ptr, strides.q_rstd), Memory(k_rstd_ptr, strides.k_rstd)
    sizes = Sizes(seq_len, batch, q_heads, k_heads)
    table = Table(table_ptr, sin_ptr, strides.table, s2)
    given = GivenPositions(seq_len, None, 0, starts_ptr, ids_ptr, strides.ids, cp)

    # My rows, of q or of k, and my share of their tiles.
    share = share_of_program(sizes, chunks, tile, order)
    weights = weights_of(share, q_weight_ptr, k_weight_ptr, head, norm, COMPUTED)
    sums = zeros_of_rows(tile, head, COMPUTED)
    for tile_number in tl.range(share.chunk, share.tiles, chunks, num_stages=order.stages):
        mine, tokens = tile_of_share(tile_number, share, sizes, tile, order)

        # Read the gradient, and what the forward kept.
        rows = rows_of(mine, q_grad, k_grad, order.per_batch, order.grad_aligned)
        grad = load_row(rows, head, head.writes_interleaved)
        rows = rows_of(mine, q, k, order.per_batch, order.aligned)
        kept = load_row(rows, head, head.reads_interleaved)
        rstd = load_numbers(mine, q_rstd, k_rstd, order.per_batch)
        angles = angles_of_tokens(tokens, given, table, head, lookup, STORED, norm.packed)
        cos_sin = angles.cos_sin
        if norm.rounds_cos_sin:
            cos_sin = rounded_cos_sin(cos_sin, STORED)
        does_turn = angles.in_sequence if norm.packed else None

        # Back through the rotation; my share of the weight's gradient; through weights and norm.
        x, grad = computed(kept, mine.exists, head), computed(grad, mine.exists, head)
        if norm.after:
            x = turn_row(x, cos_sin, does_turn, TRANSPOSE=False, INVERSE=lookup.inverse)
        else:
            grad = turn_row(grad, cos_sin, does_turn, TRANSPOSE=True, INVERSE=lookup.inverse)
        # Zeros again: what isn't there may have met a NaN.
        x_hat = zero_outside(times_number(x, rstd), mine.exists, head)
        grad = zero_outside(grad, mine.exists, head)
        if q_partial_ptr is not None:
            sums = plus_products(sums, grad, x_hat, head.tail)
        out = input_gradient(grad, x_hat, rstd, weights, head)
        if norm.after:
            out = turn_row(out, cos_sin, does_turn, TRANSPOSE=True, INVERSE=lookup.inverse)
        if q_out_ptr is not None:
            out_rows = rows_of(mine, q_out, k_out, order.per_batch, order.out_aligned)
            store_row(out_rows, out, head, head.reads_interleaved)

    if q_partial_ptr is not None:
        ptr = pointer_of(share.is_k, q_partial_ptr, k_partial_ptr)
        store_sums(ptr, sums, share.number, head, WEIGHT_INTERLEAVED)
