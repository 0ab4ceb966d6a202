"""The kernel. No torch, no launching: `launch.py` says what its arguments are for a call.

It is the RoPE kernel of every tutorial, for tiles: a program loads the two members of some pairs of
some rows, finds cos and sin of their angles, turns the pairs, and stores them. A row is one head of
one batch entry at one position. One program owns both members of a pair, so every element is read
once, written once, and may be overwritten. Rows of a position share cos and sin.

All blocks have shape (positions, rows, columns), and what does not depend on the row (positions,
columns), with 1 where it is the same all along. An argument that is None is not there, and Triton
leaves out the lines that need it.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# No value of these is compiled in: a new position, length, table or rank compiles no new kernel.
SIZES = ["first_position", "seq_len", "batch", "q_heads", "k_heads", "table_len", "sequences"]
SIZES += ["cp_size", "cp_rank"]


@triton.jit(do_not_specialize=[*SIZES, "listed", "cache_slots"])
def rope_kernel(
    q_ptr,  # what turns, viewed as (s, b, h, d)
    k_ptr,  # a second tensor with other heads, or None
    v_ptr,  # a third one, like k, that is only copied; or None
    q_out_ptr,  # results; they may be the inputs
    k_out_ptr,  # with slots a cache, (blocks, page, h, d); so is `v_out_ptr`
    v_out_ptr,
    table_ptr,  # angles or cosines, (b, s2, columns); or int64 frequencies, (d2 / 2,): on the fly
    sin_ptr,  # sines, beside cosines; or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, on all ranks; or None
    starts_ptr,  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    slots_ptr,  # (listed,): where in the caches tokens go; negative: nowhere; or None: no cache
    first_position,  # of all sequences; or None: 0. Each launch may have another one
    seq_len,  # s, or the number of packed tokens; what rows' loads wait for comes first
    batch,  # b; or None: 1, or its entries count as heads
    q_heads,
    k_heads,
    listed,  # tokens that have an entry among the slots
    ids_strides,  # of b and s
    table_strides,  # of b, s and columns; the first two in units of TABLE_UNIT
    q_strides,  # of s, b, h and d, as those of the next five; of a cache as it has them
    k_strides,
    v_strides,
    q_out_strides,
    k_out_strides,
    v_out_strides,
    table_len,  # s2
    sequences,  # number of packed sequences
    cp_size,  # ranks that share every sequence: context parallelism
    cp_rank,
    cache_slots,  # blocks * page
    page,  # positions of a block of a cache
    # which elements of a row turn: HALF pairs from START on; TAIL others are passed through
    HALF: tl.constexpr,
    START: tl.constexpr,
    TAIL: tl.constexpr,  # of both sides of the pairs; 0 in place: they are not touched
    READS_INTERLEAVED: tl.constexpr,  # a pair of the input is elements 2i and 2i + 1
    WRITES_INTERLEAVED: tl.constexpr,
    # which tile a program takes, (POSITIONS, ROWS, COLUMNS), and in which order
    POSITIONS: tl.constexpr,  # a power of two; 1 if OVER_POSITIONS
    ROWS: tl.constexpr,  # a power of two: lines of a position, each of SIDE_BY_SIDE rows
    COLUMNS: tl.constexpr,  # of a line, a power of two: pairs, or elements of WHOLE_ROWS
    SIDE_BY_SIDE: tl.constexpr,  # short rows in a line: | row 0 | row 1 | row 2 | left empty |
    OVER_POSITIONS: tl.constexpr,  # those are one head at neighboring positions, not heads
    WHOLE_ROWS: tl.constexpr,  # a column is an element, see `whole_rows`, and not a pair
    ROWS_OUTER: tl.constexpr,  # programs go through positions before rows
    STRETCH: tl.constexpr,  # None, or so many blocks of positions: all their rows, then the next
    ALIGNED: tl.constexpr,  # bytes that divide every address of a row; 0: as Triton sees by itself
    OUT_ALIGNED: tl.constexpr,  # the same of results
    TABLE_UNIT: tl.constexpr,  # elements that divide these strides, so that loads are wide
    READ_GROUP: tl.constexpr,  # packed qkv: so many heads of q, then one of k and one of v; else 0
    WRITE_GROUP: tl.constexpr,
    # how pairs turn
    ONE_PER_PAIR: tl.constexpr,  # the table has a column for each pair, not for each element
    ATTENTION_FACTOR: tl.constexpr,  # of cos and sin on the fly; None: 1
    CP_ORDER: tl.constexpr,  # "zigzag", "contiguous" or "round_robin"; None if `cp_size` is 1
    INVERSE: tl.constexpr,  # by minus the angle
    TRANSPOSE: tl.constexpr,  # the transposed map, for gradients
    ROUNDING: tl.constexpr,  # "once", or as PyTorch's operators round: `api.py` lists the kinds
    FAST_SINE: tl.constexpr,  # fewer instructions, see `cos_sin`; on NVIDIA's GPUs, not for fp64
    IN_PLACE: tl.constexpr,
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    RETURNED: tl.constexpr = q_out_ptr.dtype.element_ty  # another one where a table promotes
    WIDTH: tl.constexpr = 2 * HALF + TAIL if WHOLE_ROWS else HALF  # columns of one row
    POSITIONS_BESIDE: tl.constexpr = SIDE_BY_SIDE if OVER_POSITIONS else 1
    ROWS_BESIDE: tl.constexpr = 1 if OVER_POSITIONS else SIDE_BY_SIDE

    # My tile. The rows of k follow those of q: they turn by the same angles. Then come those of v.
    q_blocks = tl.cdiv(q_heads, ROWS * ROWS_BESIDE)
    k_blocks = tl.cdiv(k_heads, ROWS * ROWS_BESIDE)
    row_blocks = q_blocks
    if k_ptr is not None:
        row_blocks += k_blocks
    if v_ptr is not None:
        row_blocks += k_blocks
    s_blocks = tl.cdiv(seq_len, POSITIONS * POSITIONS_BESIDE)
    s_block, row_block, b = tile_of_program(
        tl.program_id(0), s_blocks, row_blocks, batch, ROWS_OUTER, STRETCH
    )

    # My tensor: q, k or v.
    x_ptr, y_ptr, heads, x_strides, y_strides = q_ptr, q_out_ptr, q_heads, q_strides, q_out_strides
    if k_ptr is not None:
        is_kv = row_block >= q_blocks  # mine are of k, or of v
        row_block -= tl.where(is_kv, q_blocks, 0)
        x_ptr, y_ptr = tl.where(is_kv, k_ptr, q_ptr), tl.where(is_kv, k_out_ptr, q_out_ptr)
        heads = tl.where(is_kv, k_heads, q_heads)
        x_strides = choose(is_kv, k_strides, q_strides)
        y_strides = choose(is_kv, k_out_strides, q_out_strides)
    if v_ptr is not None:
        is_v = row_block >= tl.where(is_kv, k_blocks, q_blocks)
        row_block -= tl.where(is_v, k_blocks, 0)
        x_ptr, y_ptr = tl.where(is_v, v_ptr, x_ptr), tl.where(is_v, v_out_ptr, y_ptr)
        x_strides = choose(is_v, v_strides, x_strides)
        y_strides = choose(is_v, v_out_strides, y_strides)

    # My rows and tokens. 64-bit from here on: an offset may pass 2^31 elements.
    column = tl.arange(0, COLUMNS)
    place, beside = column, column * 0  # each column's place in its row, and which row that is
    if SIDE_BY_SIDE > 1:
        place, beside = column % WIDTH + unseen_zero(), column // WIDTH
    b = b.to(tl.int64)
    first_s = s_block.to(tl.int64) * (POSITIONS * POSITIONS_BESIDE)
    row = (row_block * (ROWS * ROWS_BESIDE) + tl.arange(0, ROWS) * ROWS_BESIDE)[:, None]
    if OVER_POSITIONS:
        later = beside.to(tl.int64)
    else:
        later = tl.arange(0, POSITIONS).to(tl.int64)
        if SIDE_BY_SIDE > 1:
            row += beside[None, :]
    s, s_exists = first_s + later, first_s + later < seq_len  # (positions,) or (columns,)
    later = per_token(later, OVER_POSITIONS)
    token_exists = per_token(s_exists, OVER_POSITIONS)
    exists = token_exists[:, None, :] & (row < heads)[None, :, :]
    x_row, y_row = row, row
    if READ_GROUP > 0:
        x_row += tl.where(is_kv, 0, row // READ_GROUP * 2)
    if WRITE_GROUP > 0:
        y_row += tl.where(is_kv, 0, row // WRITE_GROUP * 2)
    x_ptr = row_pointers(x_ptr, x_strides, first_s, later, x_row, b, ALIGNED)
    if slots_ptr is None:
        y_ptr = row_pointers(y_ptr, y_strides, first_s, later, y_row, b, OUT_ALIGNED)
    else:  # used last of all, or other loads would wait for this one
        slot = tl.load(slots_ptr + s, s < listed, other=-1)

    # Load every element once, first of all: the loads are in flight while cos and sin are computed.
    d, out_d = x_strides[3], y_strides[3]  # strides, as s_stride; not the head dimension
    start = tl.cast(START, tl.int64)
    x_ptr, y_ptr = x_ptr + start * d, y_ptr + start * out_d
    in_block = column < SIDE_BY_SIDE * WIDTH  # not in what is left empty
    first, has_pair = place.to(tl.int64), in_block  # first members have the numbers of pairs
    second = first + HALF
    if WHOLE_ROWS:  # then `first` is the column's own element, and `second` its partner
        first, second, has_pair = whole_rows(place, in_block, HALF, START, TAIL)
    if READS_INTERLEAVED:
        x1, x2 = load_interleaved(x_ptr, d, exists, HALF, COLUMNS)
    else:
        pair_exists = exists & in_block[None, None, :]
        x1 = tl.load(x_ptr + (first * d)[None, None, :], pair_exists)
        x2 = tl.load(x_ptr + (second * d)[None, None, :], pair_exists)
    tail = None
    if TAIL > 0 and not WHOLE_ROWS:
        element, is_tail = tail_elements(START, HALF, TAIL)
        tail = tl.load(x_ptr + (element * d)[None, None, :], exists & is_tail[None, None, :])
    if v_ptr is not None:
        if is_v:  # it does not turn, and stays in the order that it was read in
            v_row, written = y_ptr, exists
            if slots_ptr is not None:
                v_row, written = cache_pointers(
                    v_row, y_strides, s, y_row, exists, is_kv, slot, cache_slots, page,
                    OVER_POSITIONS,
                )  # fmt: skip
            store_pairs(
                v_row, out_d, first, second, x1, x2, tail, written, in_block,
                READS_INTERLEAVED, HALF, START, TAIL, COLUMNS, WHOLE_ROWS,
            )  # fmt: skip
            return

    # The search for sequences is a loop. ptxas moves no load up across one, but would move those
    # above down, and a program would wait for memory twice. It moves no load across a barrier.
    if cu_seqlens_ptr is not None:
        tl.debug_barrier()

    # Cosines and sines of the angles of my tokens.
    position, in_sequence = find_positions(
        s, s_exists, b, cu_seqlens_ptr, starts_ptr, ids_ptr, first_position, ids_strides, seq_len,
        sequences, cp_size, cp_rank, CP_ORDER,
    )  # fmt: skip
    ON_THE_FLY: tl.constexpr = table_ptr.dtype.element_ty == tl.int64
    if WHOLE_ROWS and ON_THE_FLY and POSITIONS == 1 and not OVER_POSITIONS:
        position = tl.broadcast_to(position, (COLUMNS,))  # then warps share the sines among them
    else:
        position = per_token(position, OVER_POSITIONS)
    pair = first
    if WHOLE_ROWS:
        pair = tl.where(first < HALF, first, second)
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position, token_exists, b, first, second, pair, has_pair,
        table_ptr, sin_ptr, table_strides, table_len, TABLE_UNIT, ONE_PER_PAIR,
        READS_INTERLEAVED or WRITES_INTERLEAVED, ATTENTION_FACTOR, INVERSE, FAST_SINE, STORED,
    )  # fmt: skip

    # Turn in fp32 (fp64 for fp64), and round.
    if WHOLE_ROWS:  # x1 is the column's own element, x2 its partner; only y1 will be stored
        is_first = (first < HALF)[None, None, :]
        sin1, sin2 = tl.where(is_first, sin1, -sin1), tl.where(is_first, sin2, -sin2)
    ARE_ANGLES: tl.constexpr = sin_ptr is None
    turns = None
    if cu_seqlens_ptr is not None:
        turns = per_token(in_sequence, OVER_POSITIONS)[:, None, :]
    y1, y2 = turn(x1, x2, cos1, sin1, cos2, sin2, turns, TRANSPOSE, ROUNDING, ARE_ANGLES, RETURNED)
    if WHOLE_ROWS and TAIL > 0:
        y1 = tl.where(has_pair[None, None, :], y1, x1)

    # Store every element once.
    if slots_ptr is not None:
        y_ptr, exists = cache_pointers(
            y_ptr, y_strides, s, y_row, exists, is_kv, slot, cache_slots, page, OVER_POSITIONS
        )
    if WHOLE_ROWS and IN_PLACE:
        tl.debug_barrier()  # another thread may still need the old value
    store_pairs(
        y_ptr, out_d, first, second, y1, y2, tail, exists, in_block,
        WRITES_INTERLEAVED, HALF, START, TAIL, COLUMNS, WHOLE_ROWS,
    )  # fmt: skip


@triton.jit
def tile_of_program(
    program, s_blocks, row_blocks, batch, ROWS_OUTER: tl.constexpr, STRETCH: tl.constexpr
):  # fmt: skip
    """A program's block of positions, block of rows, and batch entry, in the order of memory.

    Programs start roughly in order, so those in flight share DRAM pages, and table rows in L2.
    """
    first_block, blocks, b = 0, s_blocks, s_blocks * 0
    if STRETCH is not None:
        all_rows = row_blocks if batch is None else row_blocks * batch
        first_block = program // all_rows // STRETCH * STRETCH
        program = program % all_rows + program // all_rows % STRETCH * all_rows  # in its stretch
        blocks = min(s_blocks - first_block, STRETCH) if STRETCH > 1 else 1
    if ROWS_OUTER:
        s_block, row_block = program % blocks, program // blocks
        if batch is not None:
            row_block, b = row_block % row_blocks, row_block // row_blocks
    else:
        row_block, s_block = program % row_blocks, program // row_blocks
        if batch is not None:
            s_block, b = s_block % blocks, s_block // blocks
    return first_block + s_block, row_block, b


@triton.jit
def choose(is_x, x, y):
    """The four strides of x or of y: `tl.where` takes no tuples."""
    s, b = tl.where(is_x, x[0], y[0]), tl.where(is_x, x[1], y[1])
    return s, b, tl.where(is_x, x[2], y[2]), tl.where(is_x, x[3], y[3])


@triton.jit
def per_token(x, OVER_POSITIONS: tl.constexpr):
    """A value of each token, (positions,) or (columns,), as (positions, 1) or (1, columns)."""
    return x[None, :] if OVER_POSITIONS else x[:, None]


@triton.jit
def row_pointers(ptr, strides, first_s, later, row, b, ALIGNED: tl.constexpr):
    """Pointers to element 0 of each row, with 64-bit offsets."""
    s_stride, b_stride, h_stride = strides[0], strides[1], strides[2]
    if ALIGNED > 0:
        # In rows of 144 bytes 16 divides every stride in bytes, but not in elements, which is all
        # that the compiler is told. It recognizes a multiple, whatever it makes of the sums below.
        UNIT: tl.constexpr = max(1, ALIGNED * 8 // ptr.dtype.element_ty.primitive_bitwidth)
        s_stride, b_stride = s_stride // UNIT * UNIT, b_stride // UNIT * UNIT
        h_stride = h_stride // UNIT * UNIT
    ptr += first_s * s_stride
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    row_offset = b * b_stride + row.to(tl.int64) * h_stride
    return ptr + ((later * s_stride)[:, None, :] + row_offset[None, :, :])


@triton.jit
def unseen_zero():
    """0, which the compiler does not know; it sees a multiple of 65536. Grids have one dimension.

    Added to a remainder, it keeps sums with it in 32 bits and more. LLVM computes a remainder of a
    small number in 16 bits, and packs such sums in pairs (`add.s16x2`). ptxas 12.8 for sm_90
    compared halves of them as if nothing had been added.
    """
    return tl.program_id(1) * 65536


@triton.jit
def whole_rows(place, in_block, HALF: tl.constexpr, START: tl.constexpr, TAIL: tl.constexpr):
    """Of each column its element, counted from START on, the other of its pair, and whether it has.

    Head dimension 72 in bf16: every row is aligned to 16 bytes, but the second half of a row to 8.
    So a block has whole rows side by side, 7 of 72 in 512 columns, and each element is loaded a
    second time as the other member of its pair; that load comes from L1.
    """
    first = place.to(tl.int64) - (START if TAIL > 0 else 0)
    has_pair = in_block & (first >= 0) & (first < 2 * HALF)
    second = tl.where(first < HALF, first + HALF, first - HALF)
    if TAIL > 0:
        second = tl.where((first >= 0) & (first < 2 * HALF), second, first)
    return first, second, has_pair


@triton.jit
def load_interleaved(x_ptr, d, exists, HALF: tl.constexpr, COLUMNS: tl.constexpr):
    """Elements 2i and 2i + 1 of all pairs: one wide load, separated in registers."""
    both = tl.arange(0, 2 * COLUMNS).to(tl.int64)[None, None, :]
    members = tl.load(x_ptr + both * d, exists & (both < 2 * HALF))
    return tl.split(tl.reshape(members, (members.shape[0], members.shape[1], COLUMNS, 2)))


@triton.jit
def store_pairs(
    y_ptr, d, first, second, y1, y2, tail, exists, in_block,
    INTERLEAVED: tl.constexpr, HALF: tl.constexpr, START: tl.constexpr, TAIL: tl.constexpr,
    COLUMNS: tl.constexpr, WHOLE_ROWS: tl.constexpr,
):  # fmt: skip
    """Write pairs and tails to their elements; of whole rows each column is one element."""
    if INTERLEAVED:  # to where `load_interleaved` would read them
        both = tl.arange(0, 2 * COLUMNS).to(tl.int64)[None, None, :]
        members = tl.reshape(tl.join(y1, y2), (y1.shape[0], y1.shape[1], 2 * COLUMNS))
        tl.store(y_ptr + both * d, members, exists & (both < 2 * HALF))
    else:
        pair_exists = exists & in_block[None, None, :]
        tl.store(y_ptr + (first * d)[None, None, :], y1, pair_exists)
        if not WHOLE_ROWS:
            tl.store(y_ptr + (second * d)[None, None, :], y2, pair_exists)
    if TAIL > 0 and not WHOLE_ROWS:
        element, is_tail = tail_elements(START, HALF, TAIL)
        tl.store(y_ptr + (element * d)[None, None, :], tail, exists & is_tail[None, None, :])


@triton.jit
def tail_elements(START: tl.constexpr, HALF: tl.constexpr, TAIL: tl.constexpr):
    """The elements that do not turn, counted from START on, and which columns have one."""
    other = tl.arange(0, triton.next_power_of_2(TAIL))
    # each branch is a whole number, or Triton sees no neighbors
    element = tl.where(
        other < START, other.to(tl.int64) - START, other.to(tl.int64) - START + 2 * HALF
    )
    return element, other < TAIL


@triton.jit
def cache_pointers(
    ptr, strides, s, row, exists, is_kv, slot, cache_slots, page, OVER_POSITIONS: tl.constexpr
):  # fmt: skip
    """Pointers to element 0 of each row, at its token's slot, and which rows are written.

    Rows of q are at their tokens, and b is 0: tokens of a cache have one dimension. Numbers are
    chosen before they meet strides, or Triton 3.9 would no longer see that 16 divides offsets.
    """
    slot = slot.to(tl.int64)
    has_slot = (slot >= 0) & (slot < cache_slots)
    # in 32 bits, if all slots fit: a division in 64 takes longer than the rest of a short call
    slot = tl.where(has_slot, slot, 0).to(cache_slots.dtype)
    block = slot // page
    place = (slot - block * page).to(tl.int64)
    token = tl.where(is_kv, block.to(tl.int64), s) * strides[0]
    token += place * tl.where(is_kv, strides[1], 0)
    offset = per_token(token, OVER_POSITIONS)[:, None, :]
    offset += (row.to(tl.int64) * strides[2])[None, :, :]
    has_place = per_token(has_slot | (is_kv == 0), OVER_POSITIONS)
    return ptr + offset, exists & has_place[:, None, :]


@triton.jit
def find_positions(
    s,  # int64: my tokens
    s_exists,
    b,
    cu_seqlens_ptr,
    starts_ptr,
    ids_ptr,
    first_position,
    ids_strides,
    seq_len,
    sequences,
    cp_size,
    cp_rank,
    CP_ORDER: tl.constexpr,
):
    """Each token's position in its sequence, and whether it is in a sequence."""
    sequence, position, length, in_sequence = s * 0 + b, s, s * 0 + seq_len, s_exists
    if cu_seqlens_ptr is not None:
        ranks = 1 if CP_ORDER is None else cp_size
        sequence, position, length, in_sequence = find_sequences(
            s, cu_seqlens_ptr, sequences, ranks
        )
    if CP_ORDER == "zigzag":  # chunk `cp_rank` of 2 * cp_size, then the `cp_rank`-th from the end
        chunk, from_the_end = length // 2, 2 * cp_size.to(tl.int64) - 2 - cp_rank
        position += tl.where(position < chunk, cp_rank, from_the_end) * chunk
    elif CP_ORDER == "contiguous":
        position += length * cp_rank
    elif CP_ORDER == "round_robin":
        position = position * cp_size + cp_rank
    if first_position is not None:
        position += first_position
    if starts_ptr is not None:
        position += tl.load(starts_ptr + sequence, in_sequence, other=0).to(tl.int64)
    if ids_ptr is not None:
        id_ptr = ids_ptr + b * ids_strides[0] + s * ids_strides[1]
        position = tl.load(id_ptr, s_exists, other=0).to(tl.int64)
    return position, in_sequence


@triton.jit
def find_sequences(token, cu_seqlens_ptr, sequences, ranks):
    """Each token's sequence, its index there, that one's length, and whether it is in one.

    The last start <= token is `low` or one of the `span` starts after it (empty sequences share
    their start with the next one). A step compares PROBES evenly spaced starts at once, one per
    thread of a warp: every step waits for memory, so fewer steps are faster, even with more loads.
    """
    PROBES: tl.constexpr = 32 // token.shape[0] if token.shape[0] < 16 else 2
    low, span = token * 0, sequences
    while span > 0:
        apart = (span - 1) // PROBES + 1
        probe = low[:, None] + apart * tl.arange(1, PROBES + 1)[None, :]
        start = tl.load(cu_seqlens_ptr + probe, probe <= sequences, other=0).to(tl.int64)
        before = (start <= (token * ranks)[:, None]) & (probe <= sequences)
        low += apart * tl.sum(before.to(tl.int64), 1)
        span = apart - 1
    in_sequence = token * ranks < tl.load(cu_seqlens_ptr + sequences).to(tl.int64)
    in_sequence &= low < sequences  # with no sequence at all, the only start may be past the token
    start = tl.load(cu_seqlens_ptr + low).to(tl.int64)
    end = tl.load(cu_seqlens_ptr + low + 1, in_sequence, other=0).to(tl.int64)
    return low, token - start // ranks, (end - start) // ranks, in_sequence


@triton.jit
def find_cos_sin(
    position,  # of each token, (positions, 1) or (1, columns); or on the fly (columns,)
    token_exists,
    b,
    first,  # of each column: first members
    second,
    pair,
    has_pair,
    table_ptr,
    sin_ptr,
    table_strides,
    table_len,
    TABLE_UNIT: tl.constexpr,
    ONE_PER_PAIR: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    ATTENTION_FACTOR: tl.constexpr,
    INVERSE: tl.constexpr,
    FAST_SINE: tl.constexpr,
    STORED: tl.constexpr,
):
    """Cosines and sines of both members of each pair, (positions, 1, columns)."""
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    if table_ptr.dtype.element_ty == tl.int64:
        angle = angles_on_the_fly(position, table_ptr, pair, has_pair, COMPUTED)
        cos1, sin1 = cos_sin(angle, False, FAST_SINE, BITS)
        if ATTENTION_FACTOR is not None:
            cos1, sin1 = cos1 * ATTENTION_FACTOR, sin1 * ATTENTION_FACTOR
        if len(position.shape) == 1:
            cos1, sin1 = cos1[None, :], sin1[None, :]
        cos2, sin2 = cos1, sin1
    else:
        column1, column2 = first, second
        if ONE_PER_PAIR:
            column1, column2 = pair, pair
        elif INTERLEAVED:
            column1, column2 = 2 * pair, 2 * pair + 1
        # A position past the table gives NaN. What isn't there gives 0: a norm adds its squares.
        exists = token_exists & has_pair[None, :]
        in_table = exists & (position >= 0) & (position < table_len)
        other = tl.where(exists, float("nan"), 0.0)
        row_of_table = (b * table_strides[0] + position * table_strides[1]) * TABLE_UNIT
        offset1 = row_of_table + (column1 * table_strides[2])[None, :]
        offset2 = row_of_table + (column2 * table_strides[2])[None, :]
        # all loads come before the first sine, or a program would wait for memory twice
        angle1 = tl.load(table_ptr + offset1, in_table, other).to(COMPUTED)
        angle2 = angle1
        if not ONE_PER_PAIR:
            angle2 = tl.load(table_ptr + offset2, in_table, other).to(COMPUTED)
        if sin_ptr is not None:
            cos1, cos2 = angle1, angle2
            sin1 = tl.load(sin_ptr + offset1, in_table, other).to(COMPUTED)
            sin2 = sin1
            if not ONE_PER_PAIR:
                sin2 = tl.load(sin_ptr + offset2, in_table, other).to(COMPUTED)
        else:
            cos1, sin1 = cos_sin(angle1, True, FAST_SINE, BITS)
            cos2, sin2 = cos1, sin1
            if not ONE_PER_PAIR:
                cos2, sin2 = cos_sin(angle2, True, FAST_SINE, BITS)
    if INVERSE:
        sin1, sin2 = -sin1, -sin2
    return cos1[:, None, :], sin1[:, None, :], cos2[:, None, :], sin2[:, None, :]


@triton.jit
def angles_on_the_fly(position, turns_ptr, pair, exists, COMPUTED: tl.constexpr):
    """Angles but for whole turns, from frequencies in units of 2^-64 turns a position.

    An int64 wraps around once per turn: its overflow removes whole turns and nothing else. So
    angles are right to fp32's last digits at any position. fp32 can use the upper 32 bits alone.
    """
    turns = tl.load(turns_ptr + pair, exists, other=0)
    if len(position.shape) == 2:
        turns = turns[None, :]
    turned = position * turns
    if COMPUTED == tl.float64:
        return turned.to(COMPUTED) * (6.283185307179586 * 2.0**-64)
    return (turned >> 32).to(tl.int32).to(COMPUTED) * (6.283185307179586 * 2.0**-32)


@triton.jit
def cos_sin(
    angle, HAS_WHOLE_TURNS: tl.constexpr, FAST_SINE: tl.constexpr, BITS: tl.constexpr
):  # fmt: skip
    """Cosine and sine, to 5e-7 for 16-bit elements, to 2e-7 for 32-bit, to the last for 64-bit."""
    if FAST_SINE and HAS_WHOLE_TURNS:
        # Remove whole turns first: the library's sine has a slow branch for large angles, and the
        # hardware's is accurate from -pi to pi. 2 pi comes in three pieces, two of them with few
        # bits: up to ten million radians, only the last fused multiply-add rounds.
        whole = tl.floor(tl.fma(angle, 0.15915494309189535, 0.5))
        angle = tl.fma(whole, -6.28125, angle)
        angle = tl.fma(whole, -0.0019350051879882812, angle)
        angle = tl.fma(whole, -3.019915981956753e-07, angle)
    if FAST_SINE and BITS == 16:
        return libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    return tl.cos(angle), tl.sin(angle)


@triton.jit
def turn(
    x1,
    x2,
    cos1,  # of the angle of the first member, which may differ from the second's
    sin1,
    cos2,
    sin2,
    turns,  # whether a token turns, or passes through; or None: all do
    TRANSPOSE: tl.constexpr,
    ROUNDING: tl.constexpr,
    ARE_ANGLES: tl.constexpr,  # cosines are computed, not given
    RETURNED: tl.constexpr,
):
    """Rotate every pair in the dtype of its cosine, and round.

    The transposed map differs in two signs, and in which sine it takes: it is the inverse only
    where both members have the same angle.
    """
    before1, before2 = x1, x2
    if TRANSPOSE:
        sin1, sin2 = -sin2, -sin1
    if ROUNDING == "once":
        x1, x2 = x1.to(cos1.dtype), x2.to(cos1.dtype)
        y1 = tl.fma(x1, cos1, -(x2 * sin1))
        y2 = tl.fma(x2, cos2, x1 * sin2)
    else:  # the steps of PyTorch's operators; `launch.py` forbids the compiler to fuse them
        ROUNDS_COS_SIN: tl.constexpr = ROUNDING == "model" and ARE_ANGLES
        ROUNDS: tl.constexpr = ROUNDING == "model" or (ROUNDING == "promoted" and TRANSPOSE)
        y1 = product(x1, cos1, ROUNDS_COS_SIN, ROUNDS, RETURNED)
        y1 -= product(x2, sin1, ROUNDS_COS_SIN, ROUNDS, RETURNED)
        y2 = product(x2, cos2, ROUNDS_COS_SIN, ROUNDS, RETURNED)
        y2 += product(x1, sin2, ROUNDS_COS_SIN, ROUNDS, RETURNED)
    y1, y2 = y1.to(RETURNED), y2.to(RETURNED)
    if turns is not None:
        y1, y2 = tl.where(turns, y1, before1), tl.where(turns, y2, before2)
    return y1, y2


@triton.jit
def product(
    x, factor, ROUNDS_FACTOR: tl.constexpr, ROUNDS: tl.constexpr, RETURNED: tl.constexpr
):  # fmt: skip
    """x * factor in the dtype of the factor, fp32 or fp64, or rounded to RETURNED."""
    if ROUNDS_FACTOR:
        factor = factor.to(RETURNED).to(factor.dtype)
    found = x.to(factor.dtype) * factor
    if ROUNDS:
        found = found.to(RETURNED).to(factor.dtype)
    return found
