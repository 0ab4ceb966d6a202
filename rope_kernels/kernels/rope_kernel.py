"""The kernel that rotates, told with the parts. No torch, no launching: `launch/` plans every call.

One program owns both members of its pairs, so every element is read once, written once, and may be
overwritten; and rows of a position share cos and sin. A tile is (positions, rows, pairs), mostly of
one position. An argument that is None is not there, and Triton leaves out the lines that need it.
"""

import triton
import triton.language as tl

from .angles import cos_sin_of_pairs
from .parts import (
    from_element,
    load_interleaved,
    pairs_of_block,
    per_token,
    rows_of_program,
    store_interleaved,
    tail_elements,
    turn,
    turn_in_steps,
)
from .positions import find_positions
from .values import GivenPositions, Memory, Sizes, Table, TableRows


# No value of these is compiled in: a new length or table compiles no new kernel.
@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def rope_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, or None
    q_out_ptr,  # outputs; they may be the inputs
    k_out_ptr,
    table_ptr,  # angles or cosines, (b, s2, columns); or int64 frequencies, see `angle_from_turns`
    sin_ptr,  # sines, if the table holds cosines, or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, and the last ends; or None
    starts_ptr,  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    seq_len,  # s, or the number of packed tokens
    batch,  # b; 1 if its entries are merged into the heads
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    sequences,  # number of packed sequences
    cp,  # context parallelism, `TwoChunks` or `EvenlyApart`; or None
    strides,  # `RopeStrides`
    head: tl.constexpr,  # `Head`: which elements turn
    tile: tl.constexpr,  # `Tile`: how much a program takes
    order: tl.constexpr,  # `Order`: which tile it takes
    lookup: tl.constexpr,  # `Lookup`: how it finds cosines and sines
    steps: tl.constexpr,  # `Steps`: what is rounded
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    RETURNED: tl.constexpr = q_out_ptr.dtype.element_ty
    PACKED: tl.constexpr = cu_seqlens_ptr is not None
    q, k = Memory(q_ptr, strides.q), Memory(k_ptr, strides.k)
    q_out, k_out = Memory(q_out_ptr, strides.q_out), Memory(k_out_ptr, strides.k_out)
    sizes = Sizes(seq_len, batch, q_heads, k_heads)
    table = Table(table_ptr, sin_ptr, strides.table, s2)
    given = GivenPositions(seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, strides.ids, cp)

    # My tile: pairs of some rows, at some tokens. `t` and `out` have pointers to my rows, of q or
    # of k, and say which of them exist.
    pairs = pairs_of_block(head, tile.side_by_side)
    pair, pair_exists = pairs.number, pairs.exists[None, None, :]
    t, out, tokens = rows_of_program(
        tl.program_id(0), q, k, q_out, k_out, sizes, pairs, tile, order
    )

    # Read every element once, first of all: the loads are in flight while cos and sin are computed.
    x_ptr = from_element(t, head.start)
    if head.reads_interleaved:
        x1, x2 = load_interleaved(x_ptr, t, head)
    else:
        exists = t.exists & pair_exists
        x1 = tl.load(x_ptr + (pair * t.stride)[None, None, :], exists)
        x2 = tl.load(x_ptr + ((pair + head.half) * t.stride)[None, None, :], exists)
    if head.tail > 0:
        element, is_tail = tail_elements(head)
        exists = t.exists & is_tail[None, None, :]
        tail = tl.load(t.pointers + (element * t.stride)[None, None, :], exists)

    # The search for sequences is a loop. ptxas would move the loads above down to their uses, after
    # the loop, and a program would wait for memory twice. It moves no load across a barrier.
    if PACKED:
        tl.debug_barrier()

    # Cosines and sines of the angles of my tokens.
    position, in_sequence = find_positions(tokens, given)
    # as (positions, 1), or (1, columns), to meet the columns of the table
    table_rows = TableRows(
        per_token(position, tile.over_positions),
        per_token(tokens.exists, tile.over_positions),
        tokens.b,
    )
    cos_sin = cos_sin_of_pairs(table_rows, table, pairs, head.half, lookup, STORED)

    # Turn in fp32 (fp64 for fp64), and round. Tokens past the last sequence pass through.
    if steps.fused:
        y1, y2 = turn(x1, x2, cos_sin, TRANSPOSE, lookup.inverse)
    else:
        y1, y2 = turn_in_steps(x1, x2, cos_sin, TRANSPOSE, lookup.inverse, RETURNED, steps)
    if PACKED:
        does_turn = per_token(in_sequence, tile.over_positions)[:, None, :]
        y1, y2 = tl.where(does_turn, y1, x1), tl.where(does_turn, y2, x2)

    # Write every element once.
    y_ptr = from_element(out, head.start)
    if head.writes_interleaved:
        store_interleaved(y_ptr, out, y1, y2, head)
    else:
        exists = out.exists & pair_exists
        tl.store(y_ptr + (pair * out.stride)[None, None, :], y1, exists)
        tl.store(y_ptr + ((pair + head.half) * out.stride)[None, None, :], y2, exists)
    if head.tail > 0:
        exists = out.exists & is_tail[None, None, :]
        tl.store(out.pointers + (element * out.stride)[None, None, :], tail, exists)
