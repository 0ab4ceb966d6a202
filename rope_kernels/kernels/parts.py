"""The parts that kernels are made of. `rope_kernel.py` tells how they fit together.

A row is one head of one batch entry at one position: d elements. A Triton program (a thread block)
rotates a tile of rows. Every part takes and returns values of one tile: tokens have shape
(positions,), rows (rows, 1), pairs (columns,), and elements (positions, rows, columns). The columns
may hold several rows side by side: of one position, then rows have shape (rows, columns), or over
positions, with one position and as many tokens as columns. `values.py` has the fields.
"""

import triton
import triton.language as tl

from .values import Columns, ProgramRows, Tokens


@triton.jit
def tile_of_program(
    program,  # its number
    s_blocks,  # how many tiles all positions make
    row_blocks,  # how many the rows of a position make, those of k after those of q
    entries,  # batch entries that have row blocks of their own
    ROWS_OUTER: tl.constexpr,  # positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
):
    """This program's block of positions, block of rows, and batch entry, in the order of memory.

    Programs start roughly in order, so those in flight share DRAM pages, and table rows in L2.
    """
    first_block = program // (row_blocks * entries) // STRETCH * STRETCH
    program -= first_block * row_blocks * entries
    blocks = 1
    if STRETCH > 1:
        blocks = min(s_blocks - first_block, STRETCH)
    if ROWS_OUTER:
        s_block, program = program % blocks, program // blocks
        row_block, b = program % row_blocks, program // row_blocks
    else:
        row_block, program = program % row_blocks, program // row_blocks
        s_block, b = program % blocks, program // blocks
    return first_block + s_block, row_block, b


@triton.jit
def choose_strides(
    is_k,  # whether this program rotates k
    k_strides,  # of s, b, h, d
    q_strides,  # of s, b, h, d
):
    """The strides of k or of q: `tl.where` takes no tuples."""
    s_stride = tl.where(is_k, k_strides[0], q_strides[0])
    b_stride = tl.where(is_k, k_strides[1], q_strides[1])
    h_stride = tl.where(is_k, k_strides[2], q_strides[2])
    d_stride = tl.where(is_k, k_strides[3], q_strides[3])
    return s_stride, b_stride, h_stride, d_stride


@triton.jit
def unseen_zero():
    """0, which the compiler does not know; it sees a multiple of 65536. Grids have one dimension.

    Added to a remainder, it keeps sums with it in 32 bits and more. LLVM computes a remainder of a
    small number in 16 bits, and packs such sums in pairs (`add.s16x2`). ptxas 12.8 for sm_90
    compared halves of them as if nothing had been added.
    """
    return tl.program_id(1) * 65536


@triton.jit
def per_token(
    x,  # (positions,), or OVER_POSITIONS (columns,): a value of each token
    OVER_POSITIONS: tl.constexpr,  # the columns of the tile are of several tokens
):
    """The same value with a second dimension: (positions, 1) or (1, columns)."""
    return x[None, :] if OVER_POSITIONS else x[:, None]


@triton.jit
def row_pointers(
    ptr,  # a tensor viewed as (s, b, h, d)
    strides,  # of s, b, h, d; in elements
    mine,  # `ProgramRows`
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
    ALIGNED: tl.constexpr,  # bytes that divide every row's address; 0: what the compiler can see
):
    """Pointers to element 0 of each row, (positions, rows, 1 or columns), with 64-bit offsets."""
    s_stride, b_stride, h_stride = strides[0], strides[1], strides[2]
    if ALIGNED > 0:
        # In rows of 144 bytes 16 divides every stride in bytes, but not in elements, which is all
        # that the compiler is told. It recognizes a multiple, whatever it makes of the sums below.
        unit: tl.constexpr = max(1, ALIGNED * 8 // ptr.dtype.element_ty.primitive_bitwidth)
        s_stride, b_stride = s_stride // unit * unit, b_stride // unit * unit
        h_stride = h_stride // unit * unit
    row_batch = (mine.row * 0).to(tl.int64) + mine.b  # b, in the shape of the rows
    row_head = mine.row.to(tl.int64)
    if not PER_BATCH:
        row_batch = (mine.row // mine.heads).to(tl.int64)
        row_head = (mine.row % mine.heads).to(tl.int64)
    ptr += mine.first_s * s_stride
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    s_offset, row_offset = mine.later * s_stride, row_batch * b_stride + row_head * h_stride
    return ptr + (s_offset[:, None, :] + row_offset[None, :, :])


@triton.jit
def rows_of_program(
    program,  # its number
    sizes,  # `Sizes`
    columns,  # `Columns` of a block, for rows side by side
    tile: tl.constexpr,
    order: tl.constexpr,
    HAS_K: tl.constexpr,  # there are keys
):
    """Which rows this program has, `ProgramRows`, and its `Tokens`."""
    POSITIONS: tl.constexpr = tile.positions * (tile.side_by_side if tile.over_positions else 1)
    ROWS: tl.constexpr = tile.rows * (1 if tile.over_positions else tile.side_by_side)

    # My tile. The rows of k follow those of q: they turn by the same angles.
    entries = sizes.batch if order.per_batch else 1
    shared = sizes.batch // entries
    rows, k_rows = sizes.q_heads * shared, sizes.k_heads * shared
    q_blocks = (rows - 1) // ROWS + 1
    row_blocks = q_blocks
    if HAS_K:
        row_blocks += (k_rows - 1) // ROWS + 1
    s_blocks = (sizes.seq_len - 1) // POSITIONS + 1
    s_block, row_block, b = tile_of_program(
        program, s_blocks, row_blocks, entries, order.rows_outer, order.stretch
    )

    # My tensor.
    heads, is_k = sizes.q_heads, row_block >= q_blocks
    if HAS_K:
        row_block -= tl.where(is_k, q_blocks, 0)
        heads, rows = tl.where(is_k, sizes.k_heads, heads), tl.where(is_k, k_rows, rows)

    # My rows. 64-bit from here on: an offset may pass 2^31 elements.
    b = b.to(tl.int64)
    first_s = s_block.to(tl.int64) * POSITIONS
    APART: tl.constexpr = ROWS // tile.rows  # from the first row of a block to that of the next
    row = (row_block * ROWS + tl.arange(0, tile.rows) * APART)[:, None]
    if tile.over_positions:
        tl.static_assert(tile.positions == 1)
        later = columns.row.to(tl.int64)
    else:
        later = tl.arange(0, tile.positions).to(tl.int64)
        if tile.side_by_side > 1:
            row += columns.row[None, :]
    s, s_exists = first_s + later, first_s + later < sizes.seq_len
    mine = ProgramRows(
        is_k,
        first_s,
        per_token(later, tile.over_positions),
        per_token(s_exists, tile.over_positions),
        row,
        rows,
        b,
        heads,
    )
    return mine, Tokens(s, s_exists, b)


@triton.jit
def rows_exist(mine):
    """Whether there is such a row at such a token, (positions, rows, 1 or columns)."""
    return mine.s_exists[:, None, :] & (mine.row < mine.rows)[None, :, :]


@triton.jit
def pointer_of(is_k, q_ptr, k_ptr):
    """The pointer of q or of k: `tl.where` takes no None. Without one of k it is that of q."""
    ptr = q_ptr
    if k_ptr is not None:
        ptr = tl.where(is_k, k_ptr, q_ptr)
    return ptr


@triton.jit
def pointers_of(
    mine,  # `ProgramRows`
    q,  # `Memory`
    k,  # `Memory`; the pointer may be None, then it is q
    PER_BATCH: tl.constexpr,  # rows are the heads of one entry; False: the heads of all entries
    ALIGNED: tl.constexpr,  # bytes that divide every row's address; 0: what the compiler can see
):
    """Pointers to element 0 of each of this program's rows, of q or of k, and the stride of d."""
    ptr, strides = pointer_of(mine.is_k, q.ptr, k.ptr), q.strides
    if k.ptr is not None:
        strides = choose_strides(mine.is_k, k.strides, q.strides)
    return row_pointers(ptr, strides, mine, PER_BATCH, ALIGNED), strides[3]


@triton.jit
def pairs_of_block(
    head: tl.constexpr,  # `Head`
    SIDE_BY_SIDE: tl.constexpr,  # rows in a block
):
    """The `Columns` of a block of pairs."""
    column = tl.arange(0, head.columns)
    pair, row = column, column * 0
    if SIDE_BY_SIDE > 1:
        pair, row = column % head.half + unseen_zero(), column // head.half
    return Columns(pair.to(tl.int64), row, column < SIDE_BY_SIDE * head.half)


@triton.jit
def from_element(pointers, stride, START: tl.constexpr):
    """Pointers to element START of each row, from those to its element 0."""
    return pointers + tl.full((), START, tl.int64) * stride  # 64 bits


@triton.jit
def load_interleaved(
    pointers,  # to the first element that turns, of each row
    stride,  # from one element to the next
    row_exists,  # in the shape of the pointers
    head: tl.constexpr,
):
    """Elements 2i and 2i + 1 of all pairs: one wide load, separated in registers."""
    both = tl.arange(0, 2 * head.columns).to(tl.int64)[None, None, :]
    members = tl.load(pointers + both * stride, row_exists & (both < 2 * head.half))
    shape: tl.constexpr = (members.shape[0], members.shape[1], head.columns, 2)
    return tl.split(tl.reshape(members, shape))


@triton.jit
def store_interleaved(pointers, stride, row_exists, first, second, head: tl.constexpr):
    """Write pairs, in the stored dtype, to where `load_interleaved` would read them."""
    both = tl.arange(0, 2 * head.columns).to(tl.int64)[None, None, :]
    shape: tl.constexpr = (first.shape[0], first.shape[1], 2 * head.columns)
    members = tl.reshape(tl.join(first, second), shape)
    tl.store(pointers + both * stride, members, row_exists & (both < 2 * head.half))


@triton.jit
def tail_elements(
    head: tl.constexpr,  # `Head` with a tail
):
    """Elements of a row that do not turn, (tail_columns,) int64, and whether there are such."""
    column = tl.arange(0, head.tail_columns)
    element = column.to(tl.int64)
    # Each branch is a whole element: in a sum with `where(..., 0, 2 * half)` Triton 3.9 doesn't see
    # that neighbors follow each other, and takes 2 bytes at a time.
    element = tl.where(column < head.start, element, element + 2 * head.half)
    return element, column < head.tail


@triton.jit
def turn(
    first,  # first members of the pairs, in the stored dtype
    second,  # second members
    cos_sin,  # `CosSin`
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
):
    """Rotate every pair in the dtype of its cosine, and round once.

    The transpose differs in two signs, and in which sine it takes: it equals the inverse only where
    both members have the same angle. The fused multiply-adds are written out: `whole_rows_kernel`
    has the same, so both kernels give the same bits.
    """
    cos1, sin1, cos2, sin2 = cos_sin
    if INVERSE:
        sin1, sin2 = -sin1, -sin2
    x1, x2 = first.to(cos1.dtype), second.to(cos1.dtype)
    if TRANSPOSE:
        y1 = tl.fma(x1, cos1, x2 * sin2)
        y2 = tl.fma(x2, cos2, -(x1 * sin1))
    else:
        y1 = tl.fma(x1, cos1, -(x2 * sin1))
        y2 = tl.fma(x2, cos2, x1 * sin2)
    return y1.to(first.dtype), y2.to(first.dtype)
