"""Which rows a program of a kernel with a norm has, and how they are read and written.

A program has whole rows, so it can sum their squares. A row comes in three pieces: the first
members of its pairs, the second members, and the tail, which does not turn but is normalized too.
A piece has shape (BLOCK_S, BLOCK_R, columns).
"""

import triton
import triton.language as tl

from .parts import (
    choose_strides,
    load_pairs,
    pairs_of_block,
    row_pointers,
    store_pairs,
    tile_of_program,
)


@triton.jit
def count_row_blocks(
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k, 0 without k
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
):
    """Blocks of rows of q and of k, and batch entries that have blocks of their own."""
    entries = batch if PER_BATCH else 1
    q_rows, k_rows = q_heads * (batch // entries), k_heads * (batch // entries)
    return (q_rows + BLOCK_R - 1) // BLOCK_R, (k_rows + BLOCK_R - 1) // BLOCK_R, entries


@triton.jit
def rows_of_block(
    row_block,  # this program's block of rows, those of k after those of q
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k, 0 without k
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
):
    """Whether these are rows of k; (BLOCK_R, 1) rows; whether they exist; the tensor's heads."""
    q_blocks, _, entries = count_row_blocks(batch, q_heads, k_heads, BLOCK_R, PER_BATCH)
    is_k = row_block >= q_blocks
    row_block -= tl.where(is_k, q_blocks, 0)
    heads = tl.where(is_k, k_heads, q_heads)
    row = (row_block * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    return is_k, row, row < heads * (batch // entries), heads


@triton.jit
def rows_and_share(
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k, 0 without k
    chunks,  # programs among which the same tiles are divided
    BLOCK_S: tl.constexpr,  # positions of a tile, a power of two
    BLOCK_R: tl.constexpr,  # rows of a tile, a power of two
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    FOLD: tl.constexpr,  # a program goes through batch entries too, and unless PER_HEAD all rows
):
    """The rows that this program has at many positions, and its share of their tiles.

    Returns:
        is_k: whether they are rows of k
        row, row_exists: (BLOCK_R, 1); the first ones, if it goes through all rows
        heads: of the tensor
        b: int64, the batch entry, the first with FOLD; 0 if the rows are those of all entries
        chunk: the first of its tiles; the others are `chunks` apart
        share: its number among the programs whose sums are added up, of q or of k
        tiles: of all the programs that share them
    """
    q_blocks, k_blocks, entries = count_row_blocks(batch, q_heads, k_heads, BLOCK_R, PER_BATCH)
    row_blocks, program = q_blocks + k_blocks, tl.program_id(0)
    tiles, b = (seq_len - 1) // BLOCK_S + 1, 0
    if FOLD and PER_HEAD:
        row_block, chunk = program % row_blocks, program // row_blocks
        tiles = tiles.to(tl.int64) * entries
    elif FOLD:
        of_k = program >= chunks
        row_block, chunk = tl.where(of_k, q_blocks, 0), program - tl.where(of_k, chunks, 0)
        tiles = tiles.to(tl.int64) * entries * tl.where(of_k, k_blocks, q_blocks)
    elif ROWS_OUTER:
        chunk, program = program % chunks, program // chunks
        row_block, b = program % row_blocks, program // row_blocks
    else:
        row_block, program = program % row_blocks, program // row_blocks
        chunk, b = program % chunks, program // chunks
    is_k, row, row_exists, heads = rows_of_block(
        row_block, batch, q_heads, k_heads, BLOCK_R, PER_BATCH
    )
    if FOLD:
        chunk, b = chunk.to(tl.int64), tl.full((), 0, tl.int64)
        share = chunk
    else:
        b = b.to(tl.int64)
        share = ((row_block - tl.where(is_k, q_blocks, 0)) * entries + b) * chunks + chunk
    return is_k, row, row_exists, heads, b, chunk, share, tiles


@triton.jit
def tile_of_share(
    tile,  # a program's tile, from 0
    row,  # from `rows_and_share`
    row_exists,
    heads,
    b,
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    BLOCK_S: tl.constexpr,  # positions of a tile, a power of two
    BLOCK_R: tl.constexpr,  # rows of a tile, a power of two
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    FOLD: tl.constexpr,  # a program goes through batch entries too, and unless PER_HEAD all rows
):
    """One of a program's tiles, and where it is.

    Returns:
        s: its tokens, (BLOCK_S,) int64
        exists: whether there is such a row, (BLOCK_S, BLOCK_R, 1)
        place: as `rows_of` takes it
    """
    if FOLD:
        if not PER_HEAD:
            rows = heads if PER_BATCH else heads * batch
            row_blocks = (rows + BLOCK_R - 1) // BLOCK_R
            row = ((tile % row_blocks).to(tl.int32) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
            row_exists = row < rows
            tile = tile // row_blocks
        s_blocks = (seq_len - 1) // BLOCK_S + 1
        b, tile = tile // s_blocks, tile % s_blocks
    first_s, later = tile * tl.full((), BLOCK_S, tl.int64), tl.arange(0, BLOCK_S).to(tl.int64)
    s = first_s + later
    exists = (s < seq_len)[:, None, None] & row_exists[None, :, :]
    return s, exists, (first_s, later[:, None], row, b, heads)


@triton.jit
def tile_of_rows(
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k, 0 without k
    BLOCK_S: tl.constexpr,  # positions per program, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
):
    """This program's tile, and where it is.

    Returns:
        is_k: whether its rows are those of k
        row_block: its block of rows
        s: its tokens, (BLOCK_S,) int64
        exists: whether there is such a row, (BLOCK_S, BLOCK_R, 1)
        place: as `rows_of` takes it
    """
    q_blocks, k_blocks, entries = count_row_blocks(batch, q_heads, k_heads, BLOCK_R, PER_BATCH)
    s_blocks = (seq_len - 1) // BLOCK_S + 1
    s_block, row_block, b = tile_of_program(
        s_blocks, q_blocks + k_blocks, entries, ROWS_OUTER, STRETCH
    )
    is_k, row, row_exists, heads = rows_of_block(
        row_block, batch, q_heads, k_heads, BLOCK_R, PER_BATCH
    )
    first_s, later = s_block.to(tl.int64) * BLOCK_S, tl.arange(0, BLOCK_S).to(tl.int64)
    s = first_s + later
    exists = (s < seq_len)[:, None, None] & row_exists[None, :, :]
    return is_k, row_block, s, exists, (first_s, later[:, None], row, b.to(tl.int64), heads)


@triton.jit
def pointer_of(
    is_k,  # whether this program has rows of k
    q_ptr,  # or None, then there is none of k either
    k_ptr,  # or None, then it is q
):
    """The pointer of q or of k: `tl.where` takes no None."""
    ptr = q_ptr
    if k_ptr is not None:
        ptr = tl.where(is_k, k_ptr, q_ptr)
    return ptr


@triton.jit
def rows_of(
    is_k,  # whether this program has rows of k
    q,  # (pointer, strides of s, b, h, d in elements)
    k,  # the same of k; the pointer may be None, then it is q
    place,  # (the first token, by how much the others are later, rows, batch entry, heads)
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
    ALIGNED: tl.constexpr,  # bytes that divide every row's address; 0: what the compiler can see
):
    """Pointers to element 0 of each row, (BLOCK_S, BLOCK_R, 1), and the stride of d."""
    q_ptr, q_strides = q
    k_ptr, k_strides = k
    ptr, strides = pointer_of(is_k, q_ptr, k_ptr), q_strides
    if k_ptr is not None:
        strides = choose_strides(is_k, k_strides, q_strides)
    return row_pointers(ptr, strides, *place, PER_BATCH, ALIGNED), strides[3]


@triton.jit
def tail_columns(
    START: tl.constexpr,  # the first element that turns
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two
):
    """Elements of a row that do not turn, (BLOCK_TAIL,) int64, and whether there are such."""
    column = tl.arange(0, BLOCK_TAIL)
    return column.to(tl.int64) + tl.where(column < START, 0, 2 * HALF), column < TAIL


@triton.jit
def load_row(
    pointers,  # to element 0 of each row, (BLOCK_S, BLOCK_R, 1)
    stride,  # of d
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """A row's three pieces, in the stored dtype. What is masked is undefined."""
    pair, _, is_pair = pairs_of_block(HALF, BLOCK_HALF, 1)
    slices = pointers + tl.full((), START, tl.int64) * stride
    first, second = load_pairs(slices, stride, exists, pair, is_pair, HALF, BLOCK_HALF, INTERLEAVED)
    tail = tl.zeros((1, 1, 1), first.dtype)
    if TAIL > 0:
        element, is_tail = tail_columns(START, HALF, TAIL, BLOCK_TAIL)
        tail = tl.load(
            pointers + (element * stride)[None, None, :], exists & is_tail[None, None, :]
        )
    return first, second, tail


@triton.jit
def store_row(
    pointers,  # to element 0 of each row, (BLOCK_S, BLOCK_R, 1)
    stride,  # of d
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    row,  # its three pieces
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Round a row once, and write it to where `load_row` would read it."""
    stored: tl.constexpr = pointers.dtype.element_ty
    pair, _, is_pair = pairs_of_block(HALF, BLOCK_HALF, 1)
    first, second, tail = row
    slices = pointers + tl.full((), START, tl.int64) * stride
    store_pairs(
        *(slices, stride, first.to(stored), second.to(stored), exists, pair, is_pair),
        *(HALF, BLOCK_HALF, INTERLEAVED),
    )
    if TAIL > 0:
        element, is_tail = tail_columns(START, HALF, TAIL, BLOCK_TAIL)
        mask = exists & is_tail[None, None, :]
        tl.store(pointers + (element * stride)[None, None, :], tail.to(stored), mask)


@triton.jit
def load_rows(
    is_k,  # whether this program has rows of k
    q,  # (pointer, strides), as `rows_of` takes them
    k,
    place,  # as `rows_of` takes it
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
    ALIGNED: tl.constexpr,  # bytes that divide every row's address; 0: what the compiler can see
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """This program's rows of q or of k, each in three pieces."""
    pointers, stride = rows_of(is_k, q, k, place, PER_BATCH, ALIGNED)
    return load_row(
        pointers, stride, exists, HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, INTERLEAVED
    )


@triton.jit
def store_rows(
    is_k,  # whether this program has rows of k
    q,  # (pointer, strides), as `rows_of` takes them
    k,
    place,  # as `rows_of` takes it
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    rows,  # in three pieces
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
    ALIGNED: tl.constexpr,  # bytes that divide every row's address; 0: what the compiler can see
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Write rows to where `load_rows` would read them."""
    pointers, stride = rows_of(is_k, q, k, place, PER_BATCH, ALIGNED)
    store_row(
        pointers, stride, exists, rows, HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, INTERLEAVED
    )


@triton.jit
def load_numbers(
    is_k,  # whether this program has rows of k
    q,  # (pointer, strides) of a number for each row
    k,
    place,  # as `rows_of` takes it
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
):
    """A number of each row, (BLOCK_S, BLOCK_R, 1), 0 where there is none."""
    pointers, _ = rows_of(is_k, q, k, place, PER_BATCH, 0)
    return tl.load(pointers, exists, other=0)


@triton.jit
def store_numbers(
    is_k,  # whether this program has rows of k
    q,  # (pointer, strides) of a number for each row; without a pointer nothing is stored
    k,
    place,  # as `rows_of` takes it
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    numbers,  # (BLOCK_S, BLOCK_R, 1)
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
):
    """Write a number of each row to where `load_numbers` would read it."""
    if q[0] is not None:
        pointers, _ = rows_of(is_k, q, k, place, PER_BATCH, 0)
        tl.store(pointers, numbers, exists)
