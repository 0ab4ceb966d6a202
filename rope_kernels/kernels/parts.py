"""The parts that kernels are made of. `rope_kernel.py` tells how they fit together.

A row is one head of one batch entry at one position: d elements. A Triton program (a thread block)
rotates a tile of rows. Every part takes and returns values of one tile: tokens have shape
(positions,), rows (rows, 1), pairs (columns,), and elements (positions, rows, columns). The columns
may hold several rows side by side: of one position, then rows have shape (rows, columns), or over
positions, with one position and as many tokens as columns.

An argument with the name of a value in `values.py` is one: `head` is a `Head`. `mine` is
`ProgramRows`, `pairs` and `elements` are `Columns`, and `at` is `TableRows`.
"""

import triton
import triton.language as tl

from .values import Columns, Place, RowPointers, Tokens


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
def choose_strides(is_k, k_strides, q_strides):
    """The strides of k or of q, of s, b, h and d: `tl.where` takes no tuples."""
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
def per_token(x, OVER_POSITIONS: tl.constexpr):
    """A value of each token with a second dimension: (positions, 1) or (1, columns)."""
    return x[None, :] if OVER_POSITIONS else x[:, None]


@triton.jit
def row_pointers(
    ptr,  # of a tensor viewed as (s, b, h, d), as its strides
    strides,
    place,  # or `ProgramRows`
    PER_BATCH: tl.constexpr,  # as in `Order`
    ALIGNED: tl.constexpr,  # `aligned` of an `Order`
    GROUP: tl.constexpr = 0,  # heads of q between which a head of k and one of v lie; 0: none lie
):
    """Pointers to element 0 of each row, (positions, rows, 1 or columns), with 64-bit offsets."""
    s_stride, b_stride, h_stride = strides[0], strides[1], strides[2]
    if ALIGNED > 0:
        # In rows of 144 bytes 16 divides every stride in bytes, but not in elements, which is all
        # that the compiler is told. It recognizes a multiple, whatever it makes of the sums below.
        unit: tl.constexpr = max(1, ALIGNED * 8 // ptr.dtype.element_ty.primitive_bitwidth)
        s_stride, b_stride = s_stride // unit * unit, b_stride // unit * unit
        h_stride = h_stride // unit * unit
    row_batch = (place.row * 0).to(tl.int64) + place.b  # b, in the shape of the rows
    row_head = place.row.to(tl.int64)
    if not PER_BATCH:
        row_batch = (place.row // place.heads).to(tl.int64)
        row_head = (place.row % place.heads).to(tl.int64)
    if GROUP > 0:
        row_head += tl.where(place.is_k, 0, row_head // GROUP * 2)
    ptr += place.first_s * s_stride
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    s_offset, row_offset = place.later * s_stride, row_batch * b_stride + row_head * h_stride
    return ptr + (s_offset[:, None, :] + row_offset[None, :, :])


@triton.jit
def pointer_of(is_k, q_ptr, k_ptr):
    """The pointer of q or of k: `tl.where` takes no None. Without one of k it is that of q."""
    ptr = q_ptr
    if k_ptr is not None:
        ptr = tl.where(is_k, k_ptr, q_ptr)
    return ptr


@triton.jit
def rows_of_program(
    program,  # its number
    q,  # `Memory`, as k and the outputs
    k,
    q_out,
    k_out,
    sizes,
    columns,  # of a block, for rows side by side
    tile: tl.constexpr,
    order: tl.constexpr,
):
    """This program's rows of the input and of the output, `RowPointers`, and its `Tokens`."""
    POSITIONS: tl.constexpr = tile.positions * (tile.side_by_side if tile.over_positions else 1)
    ROWS: tl.constexpr = tile.rows * (1 if tile.over_positions else tile.side_by_side)

    # My tile. The rows of k follow those of q: they turn by the same angles.
    entries = sizes.batch if order.per_batch else 1
    shared = sizes.batch // entries
    rows, k_rows = sizes.q_heads * shared, sizes.k_heads * shared
    q_blocks = (rows - 1) // ROWS + 1
    row_blocks = q_blocks
    if k.ptr is not None:
        row_blocks += (k_rows - 1) // ROWS + 1
    s_blocks = (sizes.seq_len - 1) // POSITIONS + 1
    s_block, row_block, b = tile_of_program(
        program, s_blocks, row_blocks, entries, order.rows_outer, order.stretch
    )

    # My tensor.
    ptr, out_ptr, heads = q.ptr, q_out.ptr, sizes.q_heads
    strides, out_strides = q.strides, q_out.strides
    if k.ptr is not None:
        is_k = row_block >= q_blocks
        row_block -= tl.where(is_k, q_blocks, 0)
        heads, rows = tl.where(is_k, sizes.k_heads, heads), tl.where(is_k, k_rows, rows)
        ptr, out_ptr = tl.where(is_k, k.ptr, ptr), tl.where(is_k, k_out.ptr, out_ptr)
        strides = choose_strides(is_k, k.strides, strides)
        out_strides = choose_strides(is_k, k_out.strides, out_strides)

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
    place = Place(first_s, per_token(later, tile.over_positions), row, b, heads)
    pointers = row_pointers(ptr, strides, place, order.per_batch, order.aligned)
    out_pointers = row_pointers(out_ptr, out_strides, place, order.per_batch, order.out_aligned)
    # The mask comes after the pointers: before them, some calls take more registers.
    exists = per_token(s_exists, tile.over_positions)[:, None, :] & (row < rows)[None, :, :]
    t = RowPointers(pointers, strides[3], exists)
    out = RowPointers(out_pointers, out_strides[3], exists)
    return t, out, Tokens(s, s_exists, b)


@triton.jit
def pairs_of_block(head: tl.constexpr, SIDE_BY_SIDE: tl.constexpr):
    """The `Columns` of a block of pairs, for so many rows side by side."""
    column = tl.arange(0, head.columns)
    pair, row = column, column * 0
    if SIDE_BY_SIDE > 1:
        pair, row = column % head.half + unseen_zero(), column // head.half
    return Columns(pair.to(tl.int64), row, column < SIDE_BY_SIDE * head.half)


@triton.jit
def from_element(rows, START: tl.constexpr):
    """Pointers to element START of each row; `rows` are `RowPointers`."""
    return rows.pointers + tl.full((), START, tl.int64) * rows.stride  # 64 bits


@triton.jit
def load_interleaved(slice_ptr, rows, head: tl.constexpr):
    """Elements 2i and 2i + 1 of all pairs: one wide load, separated in registers.

    `slice_ptr` points to the first element that turns, of each row, and `rows` are `RowPointers`.
    """
    both = tl.arange(0, 2 * head.columns).to(tl.int64)[None, None, :]
    members = tl.load(slice_ptr + both * rows.stride, rows.exists & (both < 2 * head.half))
    shape: tl.constexpr = (members.shape[0], members.shape[1], head.columns, 2)
    return tl.split(tl.reshape(members, shape))


@triton.jit
def store_interleaved(slice_ptr, rows, first, second, head: tl.constexpr):
    """Write pairs, in the stored dtype, to where `load_interleaved` would read them."""
    both = tl.arange(0, 2 * head.columns).to(tl.int64)[None, None, :]
    shape: tl.constexpr = (first.shape[0], first.shape[1], 2 * head.columns)
    members = tl.reshape(tl.join(first, second), shape)
    tl.store(slice_ptr + both * rows.stride, members, rows.exists & (both < 2 * head.half))


@triton.jit
def tail_elements(head: tl.constexpr):
    """Elements of a row that do not turn, (tail_columns,) int64, and whether there are such."""
    column = tl.arange(0, head.tail_columns)
    element = column.to(tl.int64)
    # Each branch is a whole element: in a sum with `where(..., 0, 2 * half)` Triton 3.9 doesn't see
    # that neighbors follow each other, and takes 2 bytes at a time.
    element = tl.where(column < head.start, element, element + 2 * head.half)
    return element, column < head.tail


@triton.jit
def turn(x1, x2, cos_sin, TRANSPOSE: tl.constexpr, INVERSE: tl.constexpr):
    """Rotate every pair in the dtype of its cosine, and round once.

    INVERSE negates the sines. TRANSPOSE, for gradients, differs in two signs, and in which sine it
    takes: it equals the inverse only where both members have the same angle. The fused
    multiply-adds are written out: `whole_rows_kernel` has the same, so both give the same bits.
    """
    cos1, sin1, cos2, sin2 = cos_sin
    if INVERSE:
        sin1, sin2 = -sin1, -sin2
    STORED: tl.constexpr = x1.dtype
    x1, x2 = x1.to(cos1.dtype), x2.to(cos1.dtype)
    if TRANSPOSE:
        y1 = tl.fma(x1, cos1, x2 * sin2)
        y2 = tl.fma(x2, cos2, -(x1 * sin1))
    else:
        y1 = tl.fma(x1, cos1, -(x2 * sin1))
        y2 = tl.fma(x2, cos2, x1 * sin2)
    return y1.to(STORED), y2.to(STORED)


@triton.jit
def turn_in_steps(
    x1,
    x2,
    cos_sin,
    TRANSPOSE: tl.constexpr,
    INVERSE: tl.constexpr,
    RETURNED: tl.constexpr,  # the dtype of the results
    steps: tl.constexpr,
):
    """As `turn`, in the steps of PyTorch's operators, each rounded: the bits of a model's function.

    Products, then a sum and a difference. No multiply-add is fused: the plan tells the compiler so.
    """
    cos1, sin1, cos2, sin2 = cos_sin
    of_cos1 = product(x1, cos1, RETURNED, steps)
    of_cos2 = product(x2, cos2, RETURNED, steps)
    if TRANSPOSE:
        sin1, sin2 = sin2, sin1
    of_sin1 = product(x2, sin1, RETURNED, steps)
    of_sin2 = product(x1, sin2, RETURNED, steps)
    BACK: tl.constexpr = TRANSPOSE != INVERSE
    if BACK:
        y1, y2 = of_cos1 + of_sin1, of_cos2 - of_sin2
    else:
        y1, y2 = of_cos1 - of_sin1, of_cos2 + of_sin2
    return y1.to(RETURNED), y2.to(RETURNED)


@triton.jit
def product(x, factor, RETURNED: tl.constexpr, steps: tl.constexpr):
    """x * factor in the dtype of the factor, fp32 or fp64, or rounded to RETURNED."""
    if steps.rounds_cos_sin:
        factor = factor.to(RETURNED).to(factor.dtype)
    found = x.to(factor.dtype) * factor
    if steps.rounds_products:
        found = found.to(RETURNED).to(factor.dtype)
    return found
