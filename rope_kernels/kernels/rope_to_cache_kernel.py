"""Rotate queries and keys, and write keys and values to their slots of a cache, in one launch.

A program has rows of q, of k, or of v. Rows are whole, by the parts of `norm_rope_kernel`.
"""

import triton
import triton.language as tl

from .norm_angles import angles_of_tokens
from .norm_arithmetic import computed, turn_as_planned
from .norm_rows import count_row_blocks, load_row, rows_of, rows_of_v, store_row, tile_of_rows
from .values import GivenPositions, Memory, RowPointers, Sizes, Slots, Table


@triton.jit
def slots_of_tokens(tokens, slots_ptr, listed, cache_slots, page):
    """The `Slots` of this program's tokens: those past the list, and outside the cache, have none.

    `page` is the number of positions in a block.
    """
    slot = tl.load(slots_ptr + tokens.s, tokens.s < listed, other=-1).to(tl.int64)
    exists = (slot >= 0) & (slot < cache_slots)
    # In 32 bits, if all slots fit: a division in 64 takes longer than all the rest of a short call.
    slot = tl.where(exists, slot, 0).to(cache_slots.dtype)
    block = slot // page
    return Slots(block.to(tl.int64), (slot - block * page).to(tl.int64), exists)


@triton.jit
def rows_at(mine, ptr, token_offset, h_stride, d_stride, exists):
    """`RowPointers` of this program's rows, whose tokens are so many elements from `ptr`."""
    row_offset = (mine.row.to(tl.int64) * h_stride)[None, :, :]
    pointers = ptr + (token_offset[:, None, None] + row_offset)
    return RowPointers(pointers, d_stride, mine.exists & exists)


@triton.jit
def rows_in_cache(mine, slots, ptr, strides):
    """`RowPointers` of this program's rows in a cache, whose strides are of block, place, h, d."""
    offset, exists = slots.block * strides[0] + slots.place * strides[1], slots.exists
    return rows_at(mine, ptr, offset, strides[2], strides[3], exists[:, None, None])


@triton.jit
def rows_of_either(mine, tokens, slots, q_out, k_cache):
    """`RowPointers` of q's output, or of k's slots: tensors of one dtype, which are `Memory`.

    The pointer is chosen before anything is added to it: AMD's compiler crashes on other choices.
    """
    ptr, is_k = tl.where(mine.is_k, k_cache.ptr, q_out.ptr), mine.is_k
    block = tl.where(is_k, slots.block, tokens.s)
    s_stride = tl.where(is_k, k_cache.strides[0], q_out.strides[0])
    place_stride = tl.where(is_k, k_cache.strides[1], 0)
    offset = block * s_stride + slots.place * place_stride
    h_stride = tl.where(is_k, k_cache.strides[2], q_out.strides[2])
    d_stride = tl.where(is_k, k_cache.strides[3], q_out.strides[3])
    exists = (slots.exists | (is_k == 0))[:, None, None]
    return rows_at(mine, ptr, offset, h_stride, d_stride, exists)


# No value of these is compiled in: a new length or cache compiles no new kernel.
@triton.jit(
    do_not_specialize=[
        "seq_len",
        "batch",
        "q_heads",
        "k_heads",
        "s2",
        "sequences",
        "listed",
        "cache_slots",
    ]
)
def rope_to_cache_kernel(
    q_ptr,  # input, viewed as (s, b, h, d); b is 1
    k_ptr,
    v_ptr,
    q_out_ptr,  # may be q itself
    k_out_ptr,  # rotated keys, too; or None
    k_cache_ptr,  # (blocks, page, h, d)
    v_cache_ptr,
    slots_ptr,  # (listed,) int32 or int64: block * page + place within it; negative: no slot
    table_ptr,  # angles or cosines, (b, s2, columns); or int64 frequencies, see `angle_from_turns`
    sin_ptr,  # sines, if the table holds cosines, or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, and the last ends; or None
    starts_ptr,  # (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    seq_len,  # tokens
    batch,  # 1
    q_heads,  # h of q
    k_heads,  # h of k and of v
    s2,  # positions in the table
    sequences,  # number of packed sequences
    listed,  # tokens that have an entry among the slots
    cache_slots,  # blocks * page
    page,  # positions of a block
    strides,  # `CacheStrides`
    k_cache_strides,  # of blocks, places, heads and elements
    v_cache_strides,
    head: tl.constexpr,  # `Head`: which elements turn
    tile: tl.constexpr,  # `Tile`: how much a program takes
    order: tl.constexpr,  # `Order`: which tile it takes
    lookup: tl.constexpr,  # `Lookup`: how it finds cosines and sines
    steps: tl.constexpr,  # `Steps`: what the rotation rounds
    V_ALIGNED: tl.constexpr,  # bytes that divide every address of a row of v, as in `Order`
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    PACKED: tl.constexpr = cu_seqlens_ptr is not None
    BY_ONE_STORE: tl.constexpr = k_out_ptr is None and order.out_aligned == 0
    q, k = Memory(q_ptr, strides.q), Memory(k_ptr, strides.k)
    table = Table(table_ptr, sin_ptr, strides.table, s2)
    given = GivenPositions(
        seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, strides.ids, None
    )

    # My tile: rows of q, of k, or of v.
    sizes = Sizes(seq_len, 1, q_heads, k_heads)  # 1 for `batch`: nothing is divided by it
    mine, tokens, row_block = tile_of_rows(sizes, tile, order, WITH_V=True)
    q_blocks, k_blocks, _ = count_row_blocks(sizes, tile.rows, order.per_batch)
    if row_block >= q_blocks + k_blocks:
        # Copy v.
        rows = rows_of_v(mine, Memory(v_ptr, strides.v), order.per_batch, V_ALIGNED)
        v = load_row(rows, head)
        slots = slots_of_tokens(tokens, slots_ptr, listed, cache_slots, page)
        store_row(rows_in_cache(mine, slots, v_cache_ptr, v_cache_strides), v, head)
    else:
        # Load everything before anything is used.
        rows = rows_of(mine, q, k, order.per_batch, order.aligned)
        x = load_row(rows, head, head.reads_interleaved)
        slots = slots_of_tokens(tokens, slots_ptr, listed, cache_slots, page)
        if PACKED:  # the barrier is explained in `rope_kernel`
            tl.debug_barrier()

        # Cosines and sines of the angles of my tokens. Those past the last sequence pass through.
        angles = angles_of_tokens(tokens, given, table, head, lookup, STORED)
        cos_sin = angles.cos_sin
        does_turn = angles.in_sequence if PACKED else None

        y = computed(x, mine.exists, head)
        y = turn_as_planned(y, cos_sin, does_turn, lookup.inverse, steps, STORED)

        # Write q to its place and k to its slots; both by one store where they can.
        q_out, k_out = Memory(q_out_ptr, strides.q_out), Memory(k_out_ptr, strides.k_out)
        if BY_ONE_STORE:
            out = rows_of_either(mine, tokens, slots, q_out, Memory(k_cache_ptr, k_cache_strides))
        else:
            out = rows_of(mine, q_out, k_out, order.per_batch, order.out_aligned)
            if k_out_ptr is None:
                out = RowPointers(out.pointers, out.stride, out.exists & (mine.is_k == 0))
        store_row(out, y, head, head.writes_interleaved)
        if not BY_ONE_STORE:
            if mine.is_k:
                k_rows = rows_in_cache(mine, slots, k_cache_ptr, k_cache_strides)
                store_row(k_rows, y, head, head.writes_interleaved)
