"""Normalize and rotate in one kernel: the forward, told with the parts.

x -> y = rope(weight * x / rms(x)), or y = weight * z / rms(z) of z = rope(x). A program has whole
rows, so a row is read once, its squares are summed in registers, and y is written once.
"""

import triton
import triton.language as tl

from .norm_angles import angles_of_tokens, store_positions
from .norm_arithmetic import computed, normalized_and_turned, weights_of
from .norm_rows import load_row, rows_of, store_numbers, store_row, tile_of_rows
from .values import GivenPositions, Memory, Sizes, Table


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def norm_rope_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, or None; so in all pairs of q and k
    q_out_ptr,  # outputs; they may be the inputs
    k_out_ptr,
    q_weight_ptr,  # (d,), or None
    k_weight_ptr,
    q_rstd_ptr,  # output, viewed as (s, b, h, 1): 1 / rms of each row; or None
    k_rstd_ptr,
    positions_ptr,  # output, (s,) int64: of packed tokens, for the backward; or None
    table_ptr,  # angles or cosines, (b, s2, columns); or int64 frequencies, see `angle_from_turns`
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
    cp,  # context parallelism, `TwoChunks` or `EvenlyApart`; or None
    strides,  # `NormStrides`
    head: tl.constexpr,  # `Head`: which elements turn
    tile: tl.constexpr,  # `Tile`: how much a program takes
    order: tl.constexpr,  # `Order`: which tile it takes
    lookup: tl.constexpr,  # `Lookup`: how it finds cosines and sines
    norm: tl.constexpr,  # `Norm`
    steps: tl.constexpr,  # `Steps`: what the rotation rounds
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    PACKED: tl.constexpr = cu_seqlens_ptr is not None
    q, k = Memory(q_ptr, strides.q), Memory(k_ptr, strides.k)
    q_out, k_out = Memory(q_out_ptr, strides.q_out), Memory(k_out_ptr, strides.k_out)
    q_rstd, k_rstd = Memory(q_rstd_ptr, strides.q_rstd), Memory(k_rstd_ptr, strides.k_rstd)
    table = Table(table_ptr, sin_ptr, strides.table, s2)
    given = GivenPositions(seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, strides.ids, cp)

    # My tile: rows of q, or of k.
    mine, tokens, row_block = tile_of_rows(Sizes(seq_len, batch, q_heads, k_heads), tile, order)

    # Load everything before anything is used. The order decides how many registers it takes:
    # benchmarks/NOTES.md has it measured. The barrier is explained in `rope_kernel`.
    if not norm.weights_last:
        weights = weights_of(mine, q_weight_ptr, k_weight_ptr, head, norm, COMPUTED)
    rows = rows_of(mine, q, k, order.per_batch, order.aligned)
    x = load_row(rows, head, head.reads_interleaved)
    if norm.weights_last:
        weights = weights_of(mine, q_weight_ptr, k_weight_ptr, head, norm, COMPUTED)
    if PACKED:
        tl.debug_barrier()

    # Cosines and sines of the angles of my tokens. Those past the last sequence pass through.
    angles = angles_of_tokens(tokens, given, table, head, lookup, STORED)
    cos_sin = angles.cos_sin
    does_turn = angles.in_sequence if PACKED else None

    # Normalize and turn in fp32 (fp64 for fp64), or the other way round.
    y = computed(x, mine.exists, head)
    y, rstd = normalized_and_turned(
        y, mine.exists, weights, cos_sin, does_turn, head, lookup, norm, steps, STORED
    )

    # Write every element once, and what the backward needs.
    out_rows = rows_of(mine, q_out, k_out, order.per_batch, order.out_aligned)
    store_row(out_rows, y, head, head.writes_interleaved)
    store_numbers(mine, q_rstd, k_rstd, rstd, order.per_batch)
    if positions_ptr is not None:
        store_positions(positions_ptr, tokens, angles, row_block)
