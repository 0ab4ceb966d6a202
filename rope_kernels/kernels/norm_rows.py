"""Which rows a program of a kernel with a norm has, and how they are read and written.

A program has whole rows, so it can sum their squares. A row comes in three pieces: the first
members of its pairs, the second members, and the tail, which does not turn but is normalized too.
"""

import triton
import triton.language as tl

from .parts import (
    choose_strides,
    from_element,
    load_interleaved,
    pairs_of_block,
    pointer_of,
    row_pointers,
    store_interleaved,
    tail_elements,
    tile_of_program,
)
from .values import Pieces, ProgramRows, RowPointers, Share, Tokens


@triton.jit
def count_row_blocks(sizes, ROWS: tl.constexpr, PER_BATCH: tl.constexpr):
    """Blocks of ROWS rows of q and of k, and batch entries that have blocks of their own.

    PER_BATCH is `per_batch` of an `Order`.
    """
    entries = sizes.batch if PER_BATCH else 1
    shared = sizes.batch // entries
    q_rows, k_rows = sizes.q_heads * shared, sizes.k_heads * shared
    return (q_rows + ROWS - 1) // ROWS, (k_rows + ROWS - 1) // ROWS, entries


@triton.jit
def rows_of_block(
    row_block,  # this program's block of rows, those of k after those of q
    sizes,
    ROWS: tl.constexpr,  # of a block
    PER_BATCH: tl.constexpr,  # as in `Order`
):
    """Whether these are rows of k; (ROWS, 1) rows; whether they exist; the tensor's heads."""
    q_blocks, _, entries = count_row_blocks(sizes, ROWS, PER_BATCH)
    is_k = row_block >= q_blocks
    row_block -= tl.where(is_k, q_blocks, 0)
    heads = tl.where(is_k, sizes.k_heads, sizes.q_heads)
    row = (row_block * ROWS + tl.arange(0, ROWS))[:, None]
    return is_k, row, row < heads * (sizes.batch // entries), heads


@triton.jit
def tile_of_rows(sizes, tile: tl.constexpr, order: tl.constexpr, WITH_V: tl.constexpr = False):
    """This program's `ProgramRows`, its `Tokens`, and which block of rows it has.

    WITH_V: after the rows of k come those of v, which are told by their block alone.
    """
    q_blocks, k_blocks, entries = count_row_blocks(sizes, tile.rows, order.per_batch)
    s_blocks = (sizes.seq_len - 1) // tile.positions + 1
    row_blocks = q_blocks + k_blocks * (2 if WITH_V else 1)
    s_block, row_block, b = tile_of_program(
        tl.program_id(0), s_blocks, row_blocks, entries, order.rows_outer, order.stretch
    )
    block_of_k = row_block
    if WITH_V:
        block_of_k -= tl.where(row_block >= q_blocks + k_blocks, k_blocks, 0)
    is_k, row, row_exists, heads = rows_of_block(block_of_k, sizes, tile.rows, order.per_batch)
    first_s, later = s_block.to(tl.int64) * tile.positions, tl.arange(0, tile.positions)
    later, b = later.to(tl.int64), b.to(tl.int64)
    s = first_s + later
    exists = (s < sizes.seq_len)[:, None, None] & row_exists[None, :, :]
    mine = ProgramRows(is_k, first_s, later[:, None], row, b, heads, exists)
    return mine, Tokens(s, s < sizes.seq_len, b), row_block


@triton.jit
def share_of_program(
    sizes,
    chunks,  # programs among which the same tiles are divided
    tile: tl.constexpr,
    order: tl.constexpr,  # `BackwardOrder`
):
    """The rows that this program has at many positions, and its share of their tiles: `Share`.

    Its tiles are `chunks` apart.
    """
    q_blocks, k_blocks, entries = count_row_blocks(sizes, tile.rows, order.per_batch)
    row_blocks, program = q_blocks + k_blocks, tl.program_id(0)
    tiles, b = (sizes.seq_len - 1) // tile.positions + 1, 0
    if order.fold:
        of_k = program >= chunks
        row_block, chunk = tl.where(of_k, q_blocks, 0), program - tl.where(of_k, chunks, 0)
        tiles = tiles.to(tl.int64) * entries * tl.where(of_k, k_blocks, q_blocks)
    elif order.rows_outer:
        chunk, program = program % chunks, program // chunks
        row_block, b = program % row_blocks, program // row_blocks
    else:
        row_block, program = program % row_blocks, program // row_blocks
        chunk, b = program % chunks, program // chunks
    is_k, row, row_exists, heads = rows_of_block(row_block, sizes, tile.rows, order.per_batch)
    if order.fold:
        chunk, b = chunk.to(tl.int64), tl.full((), 0, tl.int64)
        number = chunk
    else:
        b = b.to(tl.int64)
        number = ((row_block - tl.where(is_k, q_blocks, 0)) * entries + b) * chunks + chunk
    return Share(is_k, row, row_exists, heads, b, chunk, tiles, number)


@triton.jit
def tile_of_share(
    number,  # of the tile, from 0
    share,
    sizes,
    tile: tl.constexpr,
    order: tl.constexpr,  # `BackwardOrder`
):
    """One of a program's tiles: its `ProgramRows`, and its `Tokens`."""
    row, row_exists, b = share.row, share.row_exists, share.b
    if order.fold:
        rows = share.heads if order.per_batch else share.heads * sizes.batch
        row_blocks = (rows + tile.rows - 1) // tile.rows
        row_block = (number % row_blocks).to(tl.int32)
        row = (row_block * tile.rows + tl.arange(0, tile.rows))[:, None]
        row_exists = row < rows
        number = number // row_blocks
        s_blocks = (sizes.seq_len - 1) // tile.positions + 1
        b, number = number // s_blocks, number % s_blocks
    first_s = number * tl.full((), tile.positions, tl.int64)
    later = tl.arange(0, tile.positions).to(tl.int64)
    s = first_s + later
    exists = (s < sizes.seq_len)[:, None, None] & row_exists[None, :, :]
    mine = ProgramRows(share.is_k, first_s, later[:, None], row, b, share.heads, exists)
    return mine, Tokens(s, s < sizes.seq_len, b)


@triton.jit
def rows_of(mine, q, k, PER_BATCH: tl.constexpr, ALIGNED: tl.constexpr, GROUP: tl.constexpr = 0):
    """This program's `RowPointers` of q or of k, which are `Memory`; see `row_pointers`."""
    ptr, strides = pointer_of(mine.is_k, q.ptr, k.ptr), q.strides
    if k.ptr is not None:
        strides = choose_strides(mine.is_k, k.strides, q.strides)
    pointers = row_pointers(ptr, strides, mine, PER_BATCH, ALIGNED, GROUP)
    return RowPointers(pointers, strides[3], mine.exists)


@triton.jit
def rows_of_v(mine, v, PER_BATCH: tl.constexpr, ALIGNED: tl.constexpr):
    """The `RowPointers` of a program that has rows of v, which is `Memory`."""
    pointers = row_pointers(v.ptr, v.strides, mine, PER_BATCH, ALIGNED)
    return RowPointers(pointers, v.strides[3], mine.exists)


@triton.jit
def load_row(
    rows,
    head: tl.constexpr,
    INTERLEAVED: tl.constexpr = False,  # a pair is elements 2i and 2i + 1, not i and i + half
):
    """Whole rows in `Pieces`, in the stored dtype. What is masked is undefined."""
    pairs = pairs_of_block(head, 1)
    pair, stride = pairs.number, rows.stride
    ptr = from_element(rows, head.start)
    if INTERLEAVED:
        first, second = load_interleaved(ptr, rows, head)
    else:
        mask = rows.exists & pairs.exists[None, None, :]
        first = tl.load(ptr + (pair * stride)[None, None, :], mask)
        second = tl.load(ptr + ((pair + head.half) * stride)[None, None, :], mask)
    tail = tl.zeros((1, 1, 1), first.dtype)
    if head.tail > 0:
        element, is_tail = tail_elements(head)
        mask = rows.exists & is_tail[None, None, :]
        tail = tl.load(rows.pointers + (element * stride)[None, None, :], mask)
    return Pieces(first, second, tail)


@triton.jit
def store_row(
    rows,
    x,
    head: tl.constexpr,
    INTERLEAVED: tl.constexpr = False,  # a pair is elements 2i and 2i + 1, not i and i + half
):
    """Round rows once, and write them to where `load_row` would read them."""
    STORED: tl.constexpr = rows.pointers.dtype.element_ty
    pairs = pairs_of_block(head, 1)
    pair, stride = pairs.number, rows.stride
    ptr = from_element(rows, head.start)
    first, second, tail = x[0].to(STORED), x[1].to(STORED), x[2].to(STORED)
    if INTERLEAVED:
        store_interleaved(ptr, rows, first, second, head)
    else:
        mask = rows.exists & pairs.exists[None, None, :]
        tl.store(ptr + (pair * stride)[None, None, :], first, mask)
        tl.store(ptr + ((pair + head.half) * stride)[None, None, :], second, mask)
    if head.tail > 0:
        element, is_tail = tail_elements(head)
        mask = rows.exists & is_tail[None, None, :]
        tl.store(rows.pointers + (element * stride)[None, None, :], tail, mask)


@triton.jit
def load_numbers(mine, q, k, PER_BATCH: tl.constexpr):
    """A number of each row, (positions, rows, 1), from `Memory` of q or k; 0 where none is."""
    rows = rows_of(mine, q, k, PER_BATCH, 0)
    return tl.load(rows.pointers, rows.exists, other=0)


@triton.jit
def store_numbers(mine, q, k, numbers, PER_BATCH: tl.constexpr):
    """Write a number of each row to where `load_numbers` would read it.

    Without a pointer to q nothing is stored.
    """
    if q.ptr is not None:
        rows = rows_of(mine, q, k, PER_BATCH, 0)
        tl.store(rows.pointers, numbers, rows.exists)
