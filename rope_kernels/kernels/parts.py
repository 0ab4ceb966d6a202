"""The parts that kernels are made of. `rope_kernel.py` tells how they fit together.

A row is one head of one batch entry at one position: d elements. A Triton program (a thread block)
rotates a tile of BLOCK_S positions x BLOCK_R rows. Every part takes and returns values of one tile:
positions have shape (BLOCK_S,), rows (BLOCK_R,), pairs (BLOCK_HALF,), and elements
(BLOCK_S, BLOCK_R, BLOCK_HALF). The last dimension may hold several rows side by side: of one
position, or OVER_POSITIONS, with BLOCK_S 1 and as many tokens as columns.
"""

import triton
import triton.language as tl


@triton.jit
def tile_of_program(
    s_blocks,  # blocks of BLOCK_S positions
    row_blocks,  # blocks of BLOCK_R rows, those of k after those of q
    entries,  # batch entries that have row blocks of their own
    ROWS_OUTER: tl.constexpr,  # positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
):
    """This program's block of positions, block of rows, and batch entry, in the order of memory.

    Programs start roughly in order, so those in flight share DRAM pages, and table rows in L2.
    """
    program = tl.program_id(0)
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
    x,  # (BLOCK_S,), or OVER_POSITIONS (columns,): a value of each token
    OVER_POSITIONS: tl.constexpr,  # the columns of the tile are of several tokens
):
    """The same value with a second dimension: (BLOCK_S, 1) or (1, columns)."""
    return x[None, :] if OVER_POSITIONS else x[:, None]


@triton.jit
def row_pointers(
    ptr,  # a tensor viewed as (s, b, h, d)
    strides,  # of s, b, h, d; in elements
    first_s,  # int64, the first token of this tile
    later,  # (BLOCK_S, 1) or (1, columns), int64: by how much the others are later
    row,  # (BLOCK_R, 1) or (BLOCK_R, columns), int32: rows of this tile
    b,  # int64, this program's batch entry
    heads,  # of the tensor
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
    ALIGNED: tl.constexpr,  # bytes that divide every row's address; 0: what the compiler can see
):
    """Pointers to element 0 of each row, (BLOCK_S, BLOCK_R, 1 or columns), with 64-bit offsets."""
    s_stride, b_stride, h_stride = strides[0], strides[1], strides[2]
    if ALIGNED > 0:
        # In rows of 144 bytes 16 divides every stride in bytes, but not in elements, which is all
        # that the compiler is told. It recognizes a multiple, whatever it makes of the sums below.
        unit: tl.constexpr = max(1, ALIGNED * 8 // ptr.dtype.element_ty.primitive_bitwidth)
        s_stride, b_stride = s_stride // unit * unit, b_stride // unit * unit
        h_stride = h_stride // unit * unit
    row_batch, head = (row * 0).to(tl.int64) + b, row.to(tl.int64)
    if not PER_BATCH:
        row_batch, head = (row // heads).to(tl.int64), (row % heads).to(tl.int64)
    ptr += first_s * s_stride
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    s_offset, row_offset = later * s_stride, row_batch * b_stride + head * h_stride
    return ptr + (s_offset[:, None, :] + row_offset[None, :, :])


@triton.jit
def rows_of_program(
    q,  # (pointer, pointer to its output, heads, strides, strides of its output)
    k,  # the same of k; its pointers may be None
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    BLOCK_S: tl.constexpr,  # positions per program, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    PER_BATCH: tl.constexpr,  # a program has rows of one batch entry; False: all share their angles
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
    ALIGNED: tl.constexpr,  # bytes that divide every address of a row; 0: what the compiler sees
    OUT_ALIGNED: tl.constexpr,  # the same of the outputs
    row_in_block,  # (columns,) int32: which of the rows side by side each column is of
    ROWS_PER_BLOCK: tl.constexpr,  # rows side by side in the last dimension
    OVER_POSITIONS: tl.constexpr,  # they are one head at so many positions
):
    """Where this program reads and writes, and which of its tokens and rows there are.

    Returns:
        t_pointers, out_pointers: to element 0 of each row, (BLOCK_S, BLOCK_R, 1 or columns)
        t_stride, out_stride: of d
        exists: whether there is such a row, (BLOCK_S, BLOCK_R, 1 or columns)
        s, s_exists: the tokens, (BLOCK_S or columns,) int64, and whether there is such a token
        b: int64, the batch entry; 0 if the rows are those of all entries
    """
    POSITIONS: tl.constexpr = BLOCK_S * ROWS_PER_BLOCK if OVER_POSITIONS else BLOCK_S
    ROWS: tl.constexpr = BLOCK_R if OVER_POSITIONS else BLOCK_R * ROWS_PER_BLOCK

    # My tile. The rows of k follow those of q: they turn by the same angles.
    t_ptr, out_ptr, heads, t_strides, out_strides = q
    k_ptr, k_out_ptr, k_heads, k_strides, k_out_strides = k
    entries = batch if PER_BATCH else 1
    rows, k_rows = heads * (batch // entries), k_heads * (batch // entries)
    q_blocks = (rows - 1) // ROWS + 1
    row_blocks = q_blocks
    if k_ptr is not None:
        row_blocks += (k_rows - 1) // ROWS + 1
    s_blocks = (seq_len - 1) // POSITIONS + 1
    s_block, row_block, b = tile_of_program(s_blocks, row_blocks, entries, ROWS_OUTER, STRETCH)

    # My tensor.
    if k_ptr is not None:
        is_k = row_block >= q_blocks
        row_block -= tl.where(is_k, q_blocks, 0)
        heads, rows = tl.where(is_k, k_heads, heads), tl.where(is_k, k_rows, rows)
        t_ptr, out_ptr = tl.where(is_k, k_ptr, t_ptr), tl.where(is_k, k_out_ptr, out_ptr)
        t_strides = choose_strides(is_k, k_strides, t_strides)
        out_strides = choose_strides(is_k, k_out_strides, out_strides)

    # My rows. 64-bit from here on: an offset may pass 2^31 elements.
    b = b.to(tl.int64)
    first_s = s_block.to(tl.int64) * POSITIONS
    row = (row_block * ROWS + tl.arange(0, BLOCK_R) * (ROWS // BLOCK_R))[:, None]
    if OVER_POSITIONS:
        tl.static_assert(BLOCK_S == 1)
        later = row_in_block.to(tl.int64)
    else:
        later = tl.arange(0, BLOCK_S).to(tl.int64)
        if ROWS_PER_BLOCK > 1:
            row += row_in_block[None, :]
    s, s_exists = first_s + later, first_s + later < seq_len
    token = first_s, per_token(later, OVER_POSITIONS)
    t_pointers = row_pointers(t_ptr, t_strides, *token, row, b, heads, PER_BATCH, ALIGNED)
    out_pointers = row_pointers(out_ptr, out_strides, *token, row, b, heads, PER_BATCH, OUT_ALIGNED)
    exists = per_token(s_exists, OVER_POSITIONS)[:, None, :] & (row < rows)[None, :, :]
    t_stride, out_stride = t_strides[3], out_strides[3]
    return t_pointers, out_pointers, t_stride, out_stride, exists, s, s_exists, b


@triton.jit
def pairs_of_block(
    HALF: tl.constexpr,  # number of pairs of a row
    BLOCK_HALF: tl.constexpr,  # columns, a power of two
    ROWS_PER_BLOCK: tl.constexpr,  # rows side by side in them
):
    """Of each column: its pair, int64, its row among those side by side, and whether it has one."""
    column = tl.arange(0, BLOCK_HALF)
    pair, row = column, column * 0
    if ROWS_PER_BLOCK > 1:
        pair, row = column % HALF + unseen_zero(), column // HALF
    return pair.to(tl.int64), row, column < ROWS_PER_BLOCK * HALF


@triton.jit
def load_pairs(
    pointers,  # to element 0 of each row, (BLOCK_S, BLOCK_R, 1 or BLOCK_HALF)
    stride,  # of d
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1 or BLOCK_HALF)
    pair,  # (BLOCK_HALF,) int64: index of each pair
    is_pair,  # (BLOCK_HALF,): whether there is one
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # columns: HALF, or that of all rows side by side, rounded up
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """First and second members of all pairs, in the stored dtype."""
    if INTERLEAVED:
        # both members come with one wide load, and are separated in registers
        both = tl.arange(0, 2 * BLOCK_HALF).to(tl.int64)[None, None, :]
        members = tl.load(pointers + both * stride, exists & (both < 2 * HALF))
        shape: tl.constexpr = (members.shape[0], members.shape[1], BLOCK_HALF, 2)
        first, second = tl.split(tl.reshape(members, shape))
    else:
        mask = exists & is_pair[None, None, :]
        first = tl.load(pointers + (pair * stride)[None, None, :], mask)
        second = tl.load(pointers + ((pair + HALF) * stride)[None, None, :], mask)
    return first, second


@triton.jit
def store_pairs(
    pointers,  # to element 0 of each row, (BLOCK_S, BLOCK_R, 1 or BLOCK_HALF)
    stride,  # of d
    first,  # first members of the pairs, in the stored dtype
    second,  # second members
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1 or BLOCK_HALF)
    pair,  # (BLOCK_HALF,) int64: index of each pair
    is_pair,  # (BLOCK_HALF,): whether there is one
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # columns: HALF, or that of all rows side by side, rounded up
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Write both members of all pairs to where `load_pairs` would read them."""
    if INTERLEAVED:
        both = tl.arange(0, 2 * BLOCK_HALF).to(tl.int64)[None, None, :]
        shape: tl.constexpr = (first.shape[0], first.shape[1], 2 * BLOCK_HALF)
        members = tl.reshape(tl.join(first, second), shape)
        tl.store(pointers + both * stride, members, exists & (both < 2 * HALF))
    else:
        mask = exists & is_pair[None, None, :]
        tl.store(pointers + (pair * stride)[None, None, :], first, mask)
        tl.store(pointers + ((pair + HALF) * stride)[None, None, :], second, mask)


@triton.jit
def turn(
    first,  # first members of the pairs, in the stored dtype
    second,  # second members
    cos1,  # of the first member's angle
    sin1,
    cos2,  # of the second member's angle, which may differ
    sin2,
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
):
    """Rotate every pair in the dtype of its cosine, and round once.

    The transpose differs in two signs, and in which sine it takes. The fused multiply-adds are
    written out: `whole_rows_kernel` has the same, so both kernels give the same bits.
    """
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
