"""The kernels with a norm: forward, backward, and the sum of programs' shares of gradients.

Read `rope_kernel` in `../kernel.py` first. It explains the arguments that have no comment here.

A program has whole rows, so it can sum their squares. A row consists of three pieces: the first
members of its pairs, the second ones, and the tail, which isn't rotated but is normalized. The
backward reads x and sums the squares a second time, so the forward stores nothing for it.
"""

import triton
import triton.language as tl

from ..kernel import (
    SIZES,
    find_cos_sin,
    find_positions,
    load_rows,
    load_turns,
    my_tile,
    place_of_tile,
    rotate_pairs,
    row_pointers,
    select_strides,
    store_rows,
    tile_of_program,
)


@triton.jit(do_not_specialize=SIZES)
def norm_rope_kernel(
    tensors,  # `NormTensors`
    first_position,
    seq_len,
    batch,
    q_heads,
    k_heads,
    ids_strides,
    table_strides,
    read_strides,
    written_strides,
    table_len,
    sequences,
    cp_size,
    cp_rank,
    C: tl.constexpr,  # `NormForwardConstants`
):
    STORED: tl.constexpr = tensors.q.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    ROUNDING: tl.constexpr = C.rounding
    ROUNDED: tl.constexpr = STORED if ROUNDING == "model" else COMPUTED  # what the rotation returns
    ARE_ANGLES: tl.constexpr = tensors.sin is None
    # Weights have the order that elements have when they are normalized.
    WEIGHTS_INTERLEAVED: tl.constexpr = (
        C.writes_interleaved if C.norm_after else C.reads_interleaved
    )
    pair = tl.arange(0, triton.next_power_of_2(C.half)).to(tl.int64)

    # My tile: rows of q or of k, and the weight of my tensor.
    s_block, row_block, b, heads, is_k, _, x_ptr, x_strides, y_ptr, y_strides = my_tile(
        tensors, read_strides, written_strides, seq_len, batch, q_heads, k_heads,
        HAS_V=False, C=C,
    )  # fmt: skip
    weight_ptr = tensors.q_weight
    if tensors.k is not None:
        if weight_ptr is not None:
            weight_ptr = tl.where(is_k, tensors.k_weight, tensors.q_weight)
    first_s, s_offset, s, row, b = place_of_tile(s_block, row_block, b, C)
    s_exists = s < seq_len
    exists = s_exists[:, None, None] & (row < heads)[None, :, :]

    # Load everything before using anything. The order affects the number of registers.
    if not C.weights_last:
        w1, w2, w_tail = load_weight(
            weight_ptr, pair, INTERLEAVED=WEIGHTS_INTERLEAVED, COMPUTED=COMPUTED, C=C
        )
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, row, b, ALIGNED=C.aligned)
    x1, x2, tail = load_exact(
        x_rows, x_strides[3], pair, exists,
        INTERLEAVED=C.reads_interleaved, COMPUTED=COMPUTED, C=C,
    )  # fmt: skip
    if C.weights_last:
        w1, w2, w_tail = load_weight(
            weight_ptr, pair, INTERLEAVED=WEIGHTS_INTERLEAVED, COMPUTED=COMPUTED, C=C
        )
    if tensors.cu_seqlens is not None:
        tl.debug_barrier()  # `rope_kernel` says why.
    position, in_sequence = find_positions(
        s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
        cp_rank, C=C,
    )  # fmt: skip
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position[:, None], s_exists[:, None], b, pair, pair < C.half, (pair, pair + C.half),
        tensors, table_strides, table_len, C=C,
    )  # fmt: skip
    is_rotated = None
    if tensors.cu_seqlens is not None:
        is_rotated = in_sequence[:, None, None]

    # Normalize and rotate in fp32 (fp64 for fp64), or the other way round.
    if C.norm_after:
        x1, x2 = rotate_pairs(
            x1, x2, cos1, sin1, cos2, sin2, is_rotated,
            TRANSPOSE=False, ROUNDING=ROUNDING, COMPUTES_COS_SIN=ARE_ANGLES, RETURNED=ROUNDED,
        )  # fmt: skip
        x1, x2 = x1.to(COMPUTED), x2.to(COMPUTED)
    x1, x2, tail = normalize(x1, x2, tail, w1, w2, w_tail, STORED=STORED, C=C)
    if not C.norm_after:
        x1, x2 = rotate_pairs(
            x1, x2, cos1, sin1, cos2, sin2, is_rotated,
            TRANSPOSE=False, ROUNDING=ROUNDING, COMPUTES_COS_SIN=ARE_ANGLES, RETURNED=ROUNDED,
        )  # fmt: skip

    y_rows = row_pointers(y_ptr, y_strides, first_s, s_offset, row, b, ALIGNED=C.out_aligned)
    store_exact(
        y_rows, y_strides[3], pair, x1, x2, tail, exists, INTERLEAVED=C.writes_interleaved, C=C
    )


@triton.jit(do_not_specialize=[*SIZES, "q_programs"])
def norm_rope_backward_kernel(
    tensors,  # `NormBackwardTensors`
    first_position,
    seq_len,
    batch,
    q_heads,
    k_heads,
    q_programs,  # the first so many programs take the tiles of q, the others those of k
    ids_strides,
    table_strides,
    read_strides,  # of those of q, k, q_grad and k_grad that the call has
    written_strides,  # of q_out and k_out; None: not wanted
    table_len,
    sequences,
    cp_size,
    cp_rank,
    # `NormBackwardConstants`. `reads_interleaved` tells how the inputs of the forward and their
    # gradients are paired, `writes_interleaved` how its results and their gradients are.
    C: tl.constexpr,
):
    """A program takes tiles `number`, `number + programs`, ... of q or of k.

    Tiles have the order of the forward's programs. While a program works on a tile, the loads of
    the next tile's rows are in flight. It keeps its share of the weight's gradient in registers,
    and stores it at the end. `sum_partials_kernel` adds the shares in a fixed order. Atomics would
    add them in a different order in each run, with other bits.
    """
    STORED: tl.constexpr = tensors.q.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    ROUNDING: tl.constexpr = C.rounding
    ROUNDED: tl.constexpr = STORED if ROUNDING == "model" else COMPUTED
    WEIGHTS_INTERLEAVED: tl.constexpr = (
        C.writes_interleaved if C.norm_after else C.reads_interleaved
    )
    # Triton 3.6 can't compile a norm after a rotation if a row has only one column.
    COLUMNS: tl.constexpr = triton.next_power_of_2(C.half) if C.half > 1 else 2
    pair = tl.arange(0, COLUMNS).to(tl.int64)

    # My tensor, and my tiles of it.
    number = tl.program_id(0)
    programs = tl.num_programs(0)
    heads = q_heads
    x_ptr, g_ptr, y_ptr = tensors.q, tensors.q_grad, tensors.q_out
    TENSORS: tl.constexpr = 1 if tensors.k is None else 2
    x_strides, g_strides = read_strides[0], read_strides[TENSORS]
    if tensors.q_out is not None:
        y_strides = written_strides[0]
    weight_ptr = tensors.q_weight
    if tensors.k is not None:
        is_k = number >= q_programs
        number -= tl.where(is_k, q_programs, 0)
        programs = tl.where(is_k, programs - q_programs, q_programs)
        heads = tl.where(is_k, k_heads, q_heads)
        x_ptr, g_ptr = tl.where(is_k, tensors.k, x_ptr), tl.where(is_k, tensors.k_grad, g_ptr)
        x_strides = select_strides(is_k, read_strides[1], x_strides)
        g_strides = select_strides(is_k, read_strides[3], g_strides)
        if tensors.q_out is not None:
            y_ptr = tl.where(is_k, tensors.k_out, y_ptr)
            y_strides = select_strides(is_k, written_strides[1], y_strides)
        if weight_ptr is not None:
            weight_ptr = tl.where(is_k, tensors.k_weight, weight_ptr)
    w1, w2, w_tail = load_weight(
        weight_ptr, pair, INTERLEAVED=WEIGHTS_INTERLEAVED, COMPUTED=COMPUTED, C=C
    )

    # My share of the weight's gradient, for each place of a row in a tile. Triton doesn't accept
    # fields of `C` in a shape, so they get names.
    POSITIONS: tl.constexpr = C.positions
    ROWS: tl.constexpr = C.rows
    TAIL_COLUMNS: tl.constexpr = triton.next_power_of_2(C.tail) if C.tail > 0 else 1
    sum1 = tl.zeros((POSITIONS, ROWS, COLUMNS), COMPUTED)
    sum2 = tl.zeros((POSITIONS, ROWS, COLUMNS), COMPUTED)
    sum_tail = tl.zeros((POSITIONS, ROWS, TAIL_COLUMNS), COMPUTED)

    s_blocks, row_blocks = tl.cdiv(seq_len, C.positions), tl.cdiv(heads, C.rows)
    tiles = s_blocks * row_blocks if batch is None else s_blocks * row_blocks * batch
    (
        next_s_block, next_row_block, next_b,
        next_x1, next_x2, next_x_tail, next_g1, next_g2, next_g_tail,
    ) = load_x_and_gradient(
        number, tiles, x_ptr, x_strides, g_ptr, g_strides, s_blocks, row_blocks,
        batch, seq_len, heads, pair, C=C,
    )  # fmt: skip
    turns = None
    if C.on_the_fly:
        turns = load_turns(tensors, pair, pair < C.half)
    for tile in range(number, tiles, programs):
        first_s, s_offset, s, row, b = place_of_tile(next_s_block, next_row_block, next_b, C)
        s_exists = s < seq_len
        exists = s_exists[:, None, None] & (row < heads)[None, :, :]
        x1, x2, x_tail = next_x1.to(COMPUTED), next_x2.to(COMPUTED), next_x_tail.to(COMPUTED)
        g1, g2, g_tail = next_g1.to(COMPUTED), next_g2.to(COMPUTED), next_g_tail.to(COMPUTED)
        if C.next_first:
            (
                next_s_block, next_row_block, next_b,
                next_x1, next_x2, next_x_tail, next_g1, next_g2, next_g_tail,
            ) = load_x_and_gradient(
                tile + programs, tiles, x_ptr, x_strides, g_ptr, g_strides, s_blocks, row_blocks,
                batch, seq_len, heads, pair, C=C,
            )  # fmt: skip
        if tensors.cu_seqlens is not None:
            tl.debug_barrier()
        position, in_sequence = find_positions(
            s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
            cp_rank, C=C,
        )  # fmt: skip
        cos1, sin1, cos2, sin2 = find_cos_sin(
            position[:, None], s_exists[:, None], b, pair, pair < C.half, (pair, pair + C.half),
            tensors, table_strides, table_len, C=C, turns=turns,
        )  # fmt: skip
        is_rotated = None
        if tensors.cu_seqlens is not None:
            is_rotated = in_sequence[:, None, None]
        if C.rounds_cos_sin:
            cos1, sin1 = cos1.to(STORED).to(COMPUTED), sin1.to(STORED).to(COMPUTED)
            cos2, sin2 = cos2.to(STORED).to(COMPUTED), sin2.to(STORED).to(COMPUTED)

        # The backward of the rotation, then my share of the weight's gradient, then the backward of
        # weight and norm. If the forward rotated first, rotate x again here, and do the backward of
        # the rotation at the end.
        seen1, seen2 = x1, x2
        if C.norm_after:  # The forward may have rounded the rows before it squared them.
            seen1, seen2 = rotate_pairs(
                x1, x2, cos1, sin1, cos2, sin2, is_rotated,
                TRANSPOSE=False, ROUNDING=ROUNDING, COMPUTES_COS_SIN=False, RETURNED=ROUNDED,
            )  # fmt: skip
            seen1, seen2 = seen1.to(COMPUTED), seen2.to(COMPUTED)
            x1, x2 = rotate_pairs(
                x1, x2, cos1, sin1, cos2, sin2, is_rotated,
                TRANSPOSE=False, ROUNDING="once", COMPUTES_COS_SIN=False, RETURNED=COMPUTED,
            )  # fmt: skip
        else:
            g1, g2 = rotate_pairs(
                g1, g2, cos1, sin1, cos2, sin2, is_rotated,
                TRANSPOSE=True, ROUNDING="once", COMPUTES_COS_SIN=False, RETURNED=COMPUTED,
            )  # fmt: skip
        if not C.next_first:  # Now the registers of a table's cosines are free.
            (
                next_s_block, next_row_block, next_b,
                next_x1, next_x2, next_x_tail, next_g1, next_g2, next_g_tail,
            ) = load_x_and_gradient(
                tile + programs, tiles, x_ptr, x_strides, g_ptr, g_strides, s_blocks, row_blocks,
                batch, seq_len, heads, pair, C=C,
            )  # fmt: skip
        squares = mean_of_products(seen1, seen1, seen2, seen2, x_tail * x_tail, C)
        # A row that doesn't exist has squares of 0. With eps = 0, its rsqrt would be infinite, and
        # sums NaN.
        rstd = tl.where(exists, reciprocal_root(squares, C.eps), 0)
        x1, x2, x_tail = x1 * rstd, x2 * rstd, x_tail * rstd
        if tensors.partials is not None:
            sum1, sum2, sum_tail = sum1 + g1 * x1, sum2 + g2 * x2, sum_tail + g_tail * x_tail
        g1, g2, g_tail = g1 * w1, g2 * w2, g_tail * w_tail
        # The norm cancels any scaling of a row, so the gradient is orthogonal to the row.
        mean = mean_of_products(g1, x1, g2, x2, g_tail * x_tail, C)
        g1, g2 = (g1 - x1 * mean) * rstd, (g2 - x2 * mean) * rstd
        g_tail = (g_tail - x_tail * mean) * rstd
        if C.norm_after:
            g1, g2 = rotate_pairs(
                g1, g2, cos1, sin1, cos2, sin2, is_rotated,
                TRANSPOSE=True, ROUNDING="once", COMPUTES_COS_SIN=False, RETURNED=COMPUTED,
            )  # fmt: skip
        if tensors.q_out is not None:
            y_rows = row_pointers(
                y_ptr, y_strides, first_s, s_offset, row, b, ALIGNED=C.out_aligned
            )
            store_exact(
                y_rows, y_strides[3], pair, g1, g2, g_tail, exists,
                INTERLEAVED=C.reads_interleaved, C=C,
            )  # fmt: skip

    if tensors.partials is not None:
        mine = tensors.partials + tl.program_id(0).to(tl.int64) * (2 * C.half + C.tail)
        store_exact(
            mine, 1, pair, sum_of_tile(sum1), sum_of_tile(sum2), sum_of_tile(sum_tail),
            tl.full((1, 1, 1), 1, tl.int1), INTERLEAVED=WEIGHTS_INTERLEAVED, C=C,
        )  # fmt: skip


@triton.jit(do_not_specialize=["q_programs", "programs"])
def sum_partials_kernel(
    tensors,  # `SumTensors`
    q_programs,  # the number of shares of q's weight
    programs,  # the number of all shares
    D: tl.constexpr,  # d
    BLOCK_N: tl.constexpr,  # shares loaded at a time, a power of two
    BLOCK_D: tl.constexpr,  # elements of a program, a power of two
):
    """Add up the shares of the weights' gradients, always in the same order.

    Share n + BLOCK_N is added to share n, and so on. Then a tree adds up the BLOCK_N sums.
    """
    BLOCKS: tl.constexpr = (D + BLOCK_D - 1) // BLOCK_D
    block = tl.program_id(0)
    grad_ptr = tensors.q_grad
    first, last = 0, q_programs
    if tensors.k_grad is not None:
        is_k = block >= BLOCKS
        grad_ptr = tl.where(is_k, tensors.k_grad, tensors.q_grad)
        first, last = tl.where(is_k, q_programs, 0), tl.where(is_k, programs, q_programs)
    column = block % BLOCKS * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros((BLOCK_N, BLOCK_D), tensors.partials.dtype.element_ty)
    for n in range(first, last, BLOCK_N):
        row = n + tl.arange(0, BLOCK_N)
        mask = (row < last)[:, None] & (column < D)[None, :]
        total += tl.load(tensors.partials + row[:, None] * D + column[None, :], mask, other=0)
    tl.store(grad_ptr + column, tl.sum(total, 0).to(grad_ptr.dtype.element_ty), column < D)


@triton.jit
def load_x_and_gradient(
    tile,  # number of the tile; beyond the last one, everything is 0
    tiles,
    x_ptr,
    x_strides,
    g_ptr,
    g_strides,
    s_blocks,
    row_blocks,
    batch,
    seq_len,
    heads,
    pair,
    C: tl.constexpr,
):
    """Where a tile is, as `tile_of_program` returns it; its rows in three pieces; their gradients.

    They stay in their stored dtype, which takes half the registers until they are needed.
    """
    # Beyond the last tile, take its place: `tile_of_program` is only defined for existing tiles.
    s_block, row_block, b = tile_of_program(min(tile, tiles - 1), s_blocks, row_blocks, batch, C=C)
    first_s, s_offset, s, row, b64 = place_of_tile(s_block, row_block, b, C)
    exists = (s < seq_len)[:, None, None] & (row < heads)[None, :, :] & (tile < tiles)
    g_rows = row_pointers(g_ptr, g_strides, first_s, s_offset, row, b64, ALIGNED=C.aligned)
    g1, g2, g_tail = load_rows(
        g_rows, g_strides[3], pair, exists, INTERLEAVED=C.writes_interleaved, C=C, OTHER=0
    )
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, row, b64, ALIGNED=C.aligned)
    x1, x2, x_tail = load_rows(
        x_rows, x_strides[3], pair, exists, INTERLEAVED=C.reads_interleaved, C=C, OTHER=0
    )
    return s_block, row_block, b, x1, x2, x_tail, g1, g2, g_tail


@triton.jit
def load_exact(
    row_ptrs,  # pointers to element 0 of each row, or to that of a vector
    d_stride,
    pair,
    exists,
    INTERLEAVED: tl.constexpr,
    COMPUTED: tl.constexpr,
    C: tl.constexpr,
):
    """Rows in three pieces, as from `load_rows`, in fp32 or fp64; 0 for rows that don't exist."""
    x1, x2, tail = load_rows(
        row_ptrs, d_stride, pair, exists, INTERLEAVED=INTERLEAVED, C=C, OTHER=0
    )
    return x1.to(COMPUTED), x2.to(COMPUTED), tail.to(COMPUTED)


@triton.jit
def store_exact(
    row_ptrs,
    d_stride,
    pair,
    y1,
    y2,
    tail,
    exists,
    INTERLEAVED: tl.constexpr,
    C: tl.constexpr,
):
    """Round rows, and store them where `load_exact` would read them."""
    STORED: tl.constexpr = row_ptrs.dtype.element_ty
    y1, y2, tail = y1.to(STORED), y2.to(STORED), tail.to(STORED)
    store_rows(row_ptrs, d_stride, pair, y1, y2, tail, exists, INTERLEAVED=INTERLEAVED, C=C)


@triton.jit
def load_weight(
    ptr, pair, INTERLEAVED: tl.constexpr, COMPUTED: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    """`C.offset` plus the weight, in the pieces of a row, (1, 1, columns); 1 without a weight.

    They have three dimensions, like rows. With fewer, Triton would give each thread 2 elements, and
    use that layout for the rows, too.
    """
    one = tl.full((1, 1, 1), 1, COMPUTED)
    w1, w2, tail = one, one, one
    if ptr is not None:
        all_exist = tl.full((1, 1, 1), 1, tl.int1)
        w1, w2, tail = load_exact(
            ptr, 1, pair, all_exist, INTERLEAVED=INTERLEAVED, COMPUTED=COMPUTED, C=C
        )
        w1, w2, tail = w1 + C.offset, w2 + C.offset, tail + C.offset
    return w1, w2, tail


@triton.jit
def normalize(
    x1,
    x2,
    tail,
    w1,  # the weight in three pieces, with its offset: `load_weight`
    w2,
    w_tail,
    STORED: tl.constexpr,
    C: tl.constexpr,
):
    """Divide rows by their root mean square, and multiply them by the weight."""
    rstd = reciprocal_root(mean_of_products(x1, x1, x2, x2, tail * tail, C), C.eps)
    x1, x2, tail = x1 * rstd, x2 * rstd, tail * rstd
    if C.rounds_normal:
        x1, x2 = x1.to(STORED).to(rstd.dtype), x2.to(STORED).to(rstd.dtype)
        tail = tail.to(STORED).to(rstd.dtype)
    x1, x2, tail = x1 * w1, x2 * w2, tail * w_tail
    if C.rounds_product:
        x1, x2 = x1.to(STORED).to(rstd.dtype), x2.to(STORED).to(rstd.dtype)
        tail = tail.to(STORED).to(rstd.dtype)
    return x1, x2, tail


@triton.jit
def reciprocal_root(squares, EPS: tl.constexpr):
    """1 / sqrt(squares + EPS). A GPU's rsqrt treats fp32 below 2^-126 as 0, so scale it first."""
    x = squares + EPS
    root = tl.rsqrt(x)
    if EPS < 2.0**-126:
        root = tl.where(x < 2.0**-126, tl.rsqrt(x * 2.0**24) * 2.0**12, root)
    return root


@triton.jit
def mean_of_products(x1, y1, x2, y2, tail, C: tl.constexpr):
    """The mean of x * y over each row, (positions, rows, 1). `tail` already contains products.

    The FMA is written out. Otherwise the compiler could choose which of the two products it leaves
    unrounded.
    """
    total = tl.sum(tl.fma(x1, y1, x2 * y2) if C.fused else x1 * y1 + x2 * y2, 2)
    if C.tail > 0:
        total += tl.sum(tail, 2)
    return total[:, :, None] * (1 / (2 * C.half + C.tail))


@triton.jit
def sum_of_tile(x):
    """The sum over positions and rows: (positions, rows, columns) to (1, 1, columns)."""
    return tl.sum(tl.sum(x, 0), 0)[None, None, :]
