"""The parts that kernels with a norm are made of, beside those of `parts.py`.

A program has whole rows, so it can sum their squares. A row comes in three pieces: the first
members of its pairs, the second members, and the tail, which does not turn but is normalized too.
A piece has shape (BLOCK_S, BLOCK_R, columns).
"""

import triton
import triton.language as tl

from .cosines import (
    cos_sin_of,
    cos_sin_of_loaded,
    for_all_rows,
    load_columns,
    radians_of_turns,
)
from .parts import (
    choose_strides,
    load_pairs,
    pairs_of_block,
    per_token,
    row_pointers,
    store_pairs,
    tile_of_program,
    turn,
)
from .positions import positions


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
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k, 0 without k
    chunks,  # programs that share the positions of the same rows
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
):
    """The rows that this program has at many positions, and its share of these.

    Returns:
        is_k: whether they are rows of k
        row, row_exists: (BLOCK_R, 1)
        heads: of the tensor
        b: int64, the batch entry; 0 if the rows are those of all entries
        chunk: the first of its blocks of positions; the others are `chunks` apart
        share: its number among the programs of q, or of k
    """
    q_blocks, k_blocks, entries = count_row_blocks(batch, q_heads, k_heads, BLOCK_R, PER_BATCH)
    row_blocks, program = q_blocks + k_blocks, tl.program_id(0)
    if ROWS_OUTER:
        chunk, program = program % chunks, program // chunks
        row_block, b = program % row_blocks, program // row_blocks
    else:
        row_block, program = program % row_blocks, program // row_blocks
        chunk, b = program % chunks, program // chunks
    b = b.to(tl.int64)
    is_k, row, row_exists, heads = rows_of_block(
        row_block, batch, q_heads, k_heads, BLOCK_R, PER_BATCH
    )
    share = ((row_block - tl.where(is_k, q_blocks, 0)) * entries + b) * chunks + chunk
    return is_k, row, row_exists, heads, b, chunk, share


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


@triton.jit
def load_tile(
    is_k,  # whether this program has rows of k
    grads,  # (pointer, strides) of q's gradient and of k's, as `rows_of` takes them
    kept,  # the same of what the forward kept
    rstds,  # the same of 1 / rms of each row
    place,  # as `rows_of` takes it
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
    GRAD_ALIGNED: tl.constexpr,  # bytes that divide every address of a row of gradients
    ALIGNED: tl.constexpr,  # the same of what was kept
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    GRAD_INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1 of a gradient
    KEPT_INTERLEAVED: tl.constexpr,  # and of what was kept
):
    """The gradient, what the forward kept, and 1 / rms of this program's rows."""
    q_grad, k_grad = grads
    grad = load_rows(
        *(is_k, q_grad, k_grad, place, exists, PER_BATCH, GRAD_ALIGNED),
        *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, GRAD_INTERLEAVED),
    )
    q_kept, k_kept = kept
    rows = load_rows(
        *(is_k, q_kept, k_kept, place, exists, PER_BATCH, ALIGNED),
        *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, KEPT_INTERLEAVED),
    )
    q_rstd, k_rstd = rstds
    return grad, rows, load_numbers(is_k, q_rstd, k_rstd, place, exists, PER_BATCH)


@triton.jit
def zero_outside(
    row,  # its three pieces, fp32 or fp64
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
):
    """The same with 0 where there is no element, for sums."""
    first, second, tail = row
    is_pair = exists & (tl.arange(0, first.shape[2]) < HALF)[None, None, :]
    first, second = tl.where(is_pair, first, 0), tl.where(is_pair, second, 0)
    if TAIL > 0:
        tail = tl.where(exists & (tl.arange(0, tail.shape[2]) < TAIL)[None, None, :], tail, 0)
    return first, second, tail


@triton.jit
def computed(
    row,  # its three pieces, in the stored dtype
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
):
    """The pieces in fp32 (fp64 for fp64), and 0 where there is no element."""
    COMPUTED: tl.constexpr = tl.float64 if row[0].dtype == tl.float64 else tl.float32
    row = row[0].to(COMPUTED), row[1].to(COMPUTED), row[2].to(COMPUTED)
    return zero_outside(row, exists, HALF, TAIL)


@triton.jit
def load_weights(
    ptr,  # (d,) or (h, d), contiguous
    row,  # (BLOCK_R, 1): rows of this program, heads or heads of all entries
    heads,  # of the tensor
    OFFSET: tl.constexpr,  # is added
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Offset plus weight of a row's three pieces, each (1, BLOCK_R or 1, columns)."""
    D: tl.constexpr = 2 * HALF + TAIL
    if PER_HEAD:
        ptr += ((row % heads).to(tl.int64) * D)[None, :, :]
    pair = tl.arange(0, BLOCK_HALF)
    index1, index2 = (2 * pair, 2 * pair + 1) if INTERLEAVED else (pair, pair + HALF)
    first = factor_at(ptr, START + index1, pair < HALF, OFFSET, COMPUTED)
    second = factor_at(ptr, START + index2, pair < HALF, OFFSET, COMPUTED)
    tail = tl.full((1, 1, 1), 1, COMPUTED)
    if TAIL > 0:
        element, is_tail = tail_columns(START, HALF, TAIL, BLOCK_TAIL)
        tail = factor_at(ptr, element, is_tail, OFFSET, COMPUTED)
    return first, second, tail


@triton.jit
def weights_of(
    is_k,  # whether this program has rows of k
    q_ptr,  # as `load_weights` takes it; or None, then there are none
    k_ptr,
    row,  # (BLOCK_R, 1): rows of this program, heads or heads of all entries
    heads,  # of the tensor
    OFFSET: tl.constexpr,  # is added
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Factors of a row's three pieces: those of q or of k, or 1."""
    one = tl.full((1, 1, 1), 1, COMPUTED)
    factors = one, one, one
    if q_ptr is not None:
        factors = load_weights(
            *(pointer_of(is_k, q_ptr, k_ptr), row, heads, OFFSET, PER_HEAD, COMPUTED),
            *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, INTERLEAVED),
        )
    return factors


@triton.jit
def factor_at(
    ptr,  # where the weights start: a pointer, or (1, BLOCK_R, 1) pointers
    element,  # (columns,): of which elements
    exists,  # (columns,): whether there is such an element
    OFFSET: tl.constexpr,  # is added
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Offset plus weight, (1, BLOCK_R or 1, columns)."""
    weight = tl.load(ptr + element[None, None, :], exists[None, None, :], other=0)
    return weight.to(COMPUTED) + OFFSET


@triton.jit
def times(
    row,  # three pieces
    factors,  # three pieces that broadcast with them
):
    """The product, piece by piece."""
    return row[0] * factors[0], row[1] * factors[1], row[2] * factors[2]


@triton.jit
def dot(
    row,  # three pieces
    other,  # three pieces
    TAIL: tl.constexpr,  # elements that do not turn
):
    """The sum of the products of all elements of each row, (BLOCK_S, BLOCK_R, 1)."""
    total = tl.sum(row[0] * other[0] + row[1] * other[1], 2)
    if TAIL > 0:
        total += tl.sum(row[2] * other[2], 2)
    return total[:, :, None]


@triton.jit
def rounded(
    row,  # three pieces in fp32
    STORED: tl.constexpr,  # a dtype
):
    """Round to the stored dtype, and go on in the computed one."""
    COMPUTED: tl.constexpr = row[0].dtype
    first, second = row[0].to(STORED).to(COMPUTED), row[1].to(STORED).to(COMPUTED)
    return first, second, row[2].to(STORED).to(COMPUTED)


@triton.jit
def normalized(
    row,  # three pieces
    rstd,  # 1 / rms of each row, (BLOCK_S, BLOCK_R, 1)
    weights,  # offset plus weight: three pieces
    LIKE_MODEL: tl.constexpr,  # round both products
    STORED: tl.constexpr,  # the dtype to which they are rounded
):
    """The row over its rms, times the weights."""
    row = times(row, (rstd, rstd, rstd))
    if LIKE_MODEL:
        row = rounded(row, STORED)
    row = times(row, weights)
    if LIKE_MODEL:
        row = rounded(row, STORED)
    return row


@triton.jit
def not_in_sequence():
    """In place of the position of a token past the last packed sequence."""
    return tl.full((), -0x8000000000000000, tl.int64)


@triton.jit
def positions_of_tokens(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # (seq_len, cu_seqlens or None, sequences, starts or None, ids or None, its strides, cp)
    MARKED: tl.constexpr,  # the ids are from `store_positions`
):
    """Each token's position, whether it is in a sequence, and whether it exists, (BLOCK_S,)."""
    seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp = where
    s_exists = s < seq_len
    position, in_sequence = positions(
        s, s_exists, b, seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp
    )
    if MARKED:
        in_sequence = position > not_in_sequence()
    return position, in_sequence, s_exists


@triton.jit
def load_angles(
    tokens,  # what `positions_of_tokens` returns
    b,  # int64, this program's batch entry
    table,  # (angles or cosines or turns, sines or None, strides, s2)
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
):
    """What `angles_of` needs, for both members: angles twice, cosines and sines, or turns twice."""
    pair, _, is_pair = pairs_of_block(HALF, BLOCK_HALF, 1)
    token = per_token(tokens[0], False), per_token(tokens[2], False), b, table
    if table[0].dtype.element_ty == tl.int64:
        first1 = tl.load(table[0] + pair, is_pair, other=0)
        first2, second1, second2 = first1, first1, first1
    elif ONE_PER_PAIR:
        first1, second1 = load_columns(*token, TABLE_UNIT, pair, is_pair, COMPUTED)
        first2, second2 = first1, second1
    else:
        columns1, columns2 = (2 * pair, 2 * pair + 1) if INTERLEAVED else (pair, pair + HALF)
        first1, second1 = load_columns(*token, TABLE_UNIT, columns1, is_pair, COMPUTED)
        first2, second2 = load_columns(*token, TABLE_UNIT, columns2, is_pair, COMPUTED)
    return first1, second1, first2, second2


@triton.jit
def ask_for_angles(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # as `positions_of_tokens` takes it
    table,  # as `load_angles` takes it
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    MARKED: tl.constexpr,  # the ids are from `store_positions`
):
    """What `positions_of_tokens` and `load_angles` return: everything is issued, nothing used."""
    tokens = positions_of_tokens(s, b, where, MARKED)
    loaded = load_angles(
        tokens, b, table, COMPUTED, HALF, BLOCK_HALF, INTERLEAVED, ONE_PER_PAIR, TABLE_UNIT
    )
    return tokens, loaded


@triton.jit
def angles_of(
    loaded,  # what `load_angles` returns
    tokens,  # what `positions_of_tokens` returns
    STORED: tl.constexpr,  # dtype of the elements to rotate
    ARE_ANGLES: tl.constexpr,  # in the table; not cosines
    ONE_PER_PAIR: tl.constexpr,  # both members have the same angle
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    LIKE_MODEL: tl.constexpr,  # round cos and sin to the stored dtype
):
    """cos and sin of both members, each (BLOCK_S, 1, BLOCK_HALF), and whether tokens turn."""
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    first1, second1, first2, second2 = loaded
    if first1.dtype == tl.int64:
        angle = radians_of_turns(per_token(tokens[0], False), first1, COMPUTED)
        cos1, sin1 = cos_sin_of(angle, False, FAST_SINE, BITS)
        cos1, sin1 = for_all_rows(cos1), for_all_rows(sin1)
    else:
        cos1, sin1 = cos_sin_of_loaded(first1, second1, ARE_ANGLES, FAST_SINE, BITS)
    cos2, sin2 = cos1, sin1
    if not ONE_PER_PAIR:
        cos2, sin2 = cos_sin_of_loaded(first2, second2, ARE_ANGLES, FAST_SINE, BITS)
    if LIKE_MODEL:
        cos1, sin1 = cos1.to(STORED).to(COMPUTED), sin1.to(STORED).to(COMPUTED)
        cos2, sin2 = cos2.to(STORED).to(COMPUTED), sin2.to(STORED).to(COMPUTED)
    return cos1, sin1, cos2, sin2, tokens[1]


@triton.jit
def angles_of_tile(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # as `positions_of_tokens` takes it
    table,  # as `load_angles` takes it
    STORED: tl.constexpr,  # dtype of the elements to rotate
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    MARKED: tl.constexpr,  # the ids are from `store_positions`
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    LIKE_MODEL: tl.constexpr,  # round cos and sin to the stored dtype
):
    """`ask_for_angles`, then `angles_of` them."""
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    tokens, loaded = ask_for_angles(
        *(s, b, where, table, COMPUTED, HALF, BLOCK_HALF),
        *(INTERLEAVED, ONE_PER_PAIR, TABLE_UNIT, MARKED),
    )
    return angles_of(loaded, tokens, STORED, table[1] is None, ONE_PER_PAIR, FAST_SINE, LIKE_MODEL)


@triton.jit
def store_positions(
    ptr,  # (s,) int64
    s,  # (BLOCK_S,) int64: tokens of this tile
    tokens,  # what `positions_of_tokens` returns
    mask,  # (BLOCK_S,)
):
    """Keep the positions of packed tokens, for a backward that need not search for them again."""
    tl.store(ptr + s, tl.where(tokens[1], tokens[0], not_in_sequence()), mask)


@triton.jit
def turn_row(
    row,  # its three pieces
    angles,  # what `angles_of` returns
    PACKED: tl.constexpr,  # tokens past the last sequence pass through
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
    LIKE_MODEL: tl.constexpr,  # round the products too
    STORED: tl.constexpr,  # the dtype to which they are rounded
):
    """Rotate the pairs of a row; its tail passes through."""
    x1, x2, tail = row
    cos1, sin1, cos2, sin2, in_sequence = angles
    if LIKE_MODEL:  # no multiply-add is fused: the compiler is told so
        if INVERSE:
            sin1, sin2 = -sin1, -sin2
        a1, b1, _ = rounded((x1 * cos1, x2 * sin1, tail), STORED)
        a2, b2, _ = rounded((x2 * cos2, x1 * sin2, tail), STORED)
        y1, y2, _ = rounded((a1 - b1, a2 + b2, tail), STORED)
    else:
        y1, y2 = turn(x1, x2, cos1, sin1, cos2, sin2, TRANSPOSE, INVERSE)
    if PACKED:
        turns = in_sequence[:, None, None]
        y1, y2 = tl.where(turns, y1, x1), tl.where(turns, y2, x2)
    return y1, y2, tail


@triton.jit
def normal_and_gradient(
    kept,  # the input, or the output if FROM_OUTPUT: three pieces, 0 where there is no element
    grad,  # of the output: the same
    rstd,  # 1 / rms of each row, (BLOCK_S, BLOCK_R, 1)
    weights,  # offset plus weight: three pieces
    angles,  # what `angles_of` returns
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    NORM_AFTER: tl.constexpr,  # the rotated row was normalized
    FROM_OUTPUT: tl.constexpr,  # `kept` is what the forward wrote
    SCALED: tl.constexpr,  # cos and sin come from a table, which may scale
    PACKED: tl.constexpr,  # tokens past the last sequence pass through
    INVERSE: tl.constexpr,  # sines were negated
):
    """The normalized row, and the gradient of its product with the weights."""
    DTYPE: tl.constexpr = rstd.dtype
    if not NORM_AFTER:
        grad = turn_row(grad, angles, PACKED, True, INVERSE, False, DTYPE)
    if not FROM_OUTPUT:
        normal = kept
        if NORM_AFTER:
            normal = turn_row(kept, angles, PACKED, False, INVERSE, False, DTYPE)
        normal = times(normal, (rstd, rstd, rstd))
    elif NORM_AFTER:
        normal = kept[0] / weights[0], kept[1] / weights[1], kept[2] / weights[2]
    else:
        # the transposed map undoes a rotation, but for the square of a scale
        normal = turn_row(kept, angles, PACKED, True, INVERSE, False, DTYPE)
        if SCALED:
            scale = angles[0] * angles[0] + angles[1] * angles[1]
            if PACKED:
                scale = tl.where(angles[4][:, None, None], scale, 1)
            normal = normal[0] / scale, normal[1] / scale, normal[2]
    return zero_outside(normal, exists, HALF, TAIL), zero_outside(grad, exists, HALF, TAIL)


@triton.jit
def input_gradient(
    grad,  # of the normalized row times the weights: three pieces
    normal,  # the normalized row: three pieces
    rstd,  # 1 / rms of each row, (BLOCK_S, BLOCK_R, 1)
    weights,  # offset plus weight: three pieces
    angles,  # what `angles_of` returns
    TAIL: tl.constexpr,  # elements that do not turn
    NORM_DIM: tl.constexpr,  # number of squares in a sum
    NORM_AFTER: tl.constexpr,  # the rotated row was normalized
    GIVEN: tl.constexpr,  # the sum of squares came from elsewhere
    PACKED: tl.constexpr,  # tokens past the last sequence pass through
    INVERSE: tl.constexpr,  # sines were negated
):
    """Gradients of the input, and of a sum of squares that came from elsewhere."""
    grad = times(grad, weights)
    along = dot(grad, normal, TAIL)
    if not GIVEN:  # a row that grows is scaled down: no gradient along the row is left
        mean = along * (1 / NORM_DIM)
        first, second = grad[0] - normal[0] * mean, grad[1] - normal[1] * mean
        grad = first, second, grad[2] - normal[2] * mean
    grad = times(grad, (rstd, rstd, rstd))
    if NORM_AFTER:
        grad = turn_row(grad, angles, PACKED, True, INVERSE, False, rstd.dtype)
    return grad, along * rstd * rstd * (-0.5 / NORM_DIM)


@triton.jit
def zeros_like_rows(
    BLOCK_S: tl.constexpr,  # positions of a tile
    BLOCK_R: tl.constexpr,  # rows of a tile
    BLOCK_HALF: tl.constexpr,  # columns of pairs
    BLOCK_TAIL: tl.constexpr,  # columns of the tail, or 0
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """A tile of zeros in three pieces."""
    first = tl.zeros((BLOCK_S, BLOCK_R, BLOCK_HALF), COMPUTED)
    second = tl.zeros((BLOCK_S, BLOCK_R, BLOCK_HALF), COMPUTED)
    tail = tl.zeros((BLOCK_S, BLOCK_R, BLOCK_TAIL if BLOCK_TAIL > 0 else 1), COMPUTED)
    return first, second, tail


@triton.jit
def plus_products(
    sums,  # three pieces
    row,  # three pieces
    other,  # three pieces
    TAIL: tl.constexpr,  # elements that do not turn
):
    """Add the products of all elements to the sums."""
    first, second, tail = sums
    first += row[0] * other[0]
    second += row[1] * other[1]
    if TAIL > 0:
        tail += row[2] * other[2]
    return first, second, tail


@triton.jit
def store_sums(
    ptr,  # (shares, d), or PER_HEAD (chunks, b * h, d)
    sums,  # of the weight's gradient, three pieces, over this program's tiles
    row,  # (BLOCK_R, 1), int32: rows of this program
    row_exists,  # (BLOCK_R, 1)
    share,  # int64, which share this program's is
    first_row,  # int64, where its chunk and batch entry start, with PER_HEAD
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Add up a program's tile, and write its share of the weight's gradient."""
    D: tl.constexpr = 2 * HALF + TAIL
    if PER_HEAD:
        rows = ptr + ((first_row + row.to(tl.int64)) * D)[None, :, :]
        exists = row_exists[None, :, :]
        sums = over_positions(sums[0]), over_positions(sums[1]), over_positions(sums[2])
    else:
        rows = ptr + share * D + tl.zeros((1, 1, 1), tl.int64)
        exists = tl.full((1, 1, 1), 1, tl.int1)
        sums = over_rows(sums[0]), over_rows(sums[1]), over_rows(sums[2])
    stride = 1
    store_row(rows, stride, exists, sums, HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, INTERLEAVED)


@triton.jit
def over_positions(
    x,  # (BLOCK_S, BLOCK_R, columns)
):
    """The sum over positions, (1, BLOCK_R, columns)."""
    return tl.sum(x, 0)[None, :, :]


@triton.jit
def over_rows(
    x,  # (BLOCK_S, BLOCK_R, columns)
):
    """The sum over positions and rows, (1, 1, columns)."""
    return tl.sum(tl.sum(x, 0), 0)[None, None, :]
