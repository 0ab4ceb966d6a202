"""The kernel that rotates queries and keys, and the functions that all kernels share.

Start with `rope_kernel`. It does the same as rung 7 of notebook 09: a Triton program loads a tile
of rows, gets cosines and sines of its angles, rotates the pairs, and stores the rows. The other
functions follow in the order in which `rope_kernel` calls them. `arguments.py` explains its tensors
and constants.

Rung 7 doesn't have: keys and values in the same launch, strides, several positions in a tile,
another order of tiles, other positions than 0, 1, 2, ..., context parallelism, rows with a tail,
interleaved pairs, tables of cosines, angles computed on the fly, an attention factor, inverse
rotation, a model's rounding, packed projections, and caches.

A row is one head of one batch entry at one position. A pair is two elements of a row that are
rotated together: its first and its second member. A tile is the work of one program: some
positions, and some rows of each. Rows of one position have the same angles, so they share cosines
and sines. One program owns both members of a pair, so every element is read once, written once, and
may be overwritten.

Blocks have shape (positions, rows, columns). Values that don't depend on the row have shape
(positions, 1, columns). In a tile, a column is a pair. In a table, it is an element, or with
`C.one_per_pair` a pair. x is read, y is written.

Rung 7's `position` is split in two here. `s` is a token's index in the tensor, which determines its
address. `position` is its position in its sequence, which determines its angles.

None means that the call doesn't have this argument. Triton evaluates an `if` on None, on a constant
of `C`, or on a name in capitals at compile time, so a compiled kernel contains only the lines that
its call needs.

This file doesn't import torch; `launch.py` makes the arguments. Two more files build kernels from
these functions: `wide_kernel.py`, for rows that are better aligned than their halves, and
`norms/kernel.py`, with a norm.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# Triton compiles another kernel for an integer that is 1, or that 16 divides. It doesn't specialize
# on these, so a new position, length, table or rank doesn't compile a new kernel.
SIZES = ["first_position", "seq_len", "batch", "q_heads", "k_heads", "table_len", "sequences"]
SIZES += ["cp_size", "cp_rank"]


@triton.jit(do_not_specialize=[*SIZES, "listed", "cache_slots"])
def rope_kernel(
    tensors,  # `Tensors`
    first_position,  # position at which every sequence starts; None: 0
    # Sizes and strides. ptxas loads arguments in this order, and a launch for one new token, as in
    # decoding, waits for the arguments in front of those that its first loads need. So the strides
    # of ids and of the table come before those of rows. This, and one division fewer, took such a
    # launch from 2.58 to 2.30 µs (benchmarks/NOTES.md).
    seq_len,  # s, or the number of packed tokens
    batch,  # b; None: it is 1, or the heads of all entries are counted together
    q_heads,  # of one batch entry, or of all: see `batch`
    k_heads,  # heads of k, and of v
    ids_strides,  # of b and s
    table_strides,  # of b, s and columns; those of b and s in units of `C.table_unit`
    read_strides,  # of s, b, h and d, for each of q, k and v that the call has
    written_strides,  # the same for the results; for a cache, of block, page, h and d
    table_len,  # s2
    sequences,  # number of packed sequences
    cp_size,  # ranks (GPUs) that share every sequence: context parallelism
    cp_rank,  # this rank's number
    listed,  # the first so many tokens have a slot; None: no cache
    cache_slots,  # slots of a cache: blocks * page
    page,  # slots of a block
    C: tl.constexpr,  # `Constants`
):
    ROUNDING: tl.constexpr = C.rounding  # Triton 3.6 doesn't accept a string field as a constant.

    # My tile: a block of positions, a block of rows of q, k or v, and a batch entry. x_ptr and
    # x_strides are those of my tensor, y_ptr and y_strides those of its result.
    s_block, row_block, b, heads, is_kv, is_v, x_ptr, x_strides, y_ptr, y_strides = my_tile(
        tensors, read_strides, written_strides, seq_len, batch, q_heads, k_heads,
        HAS_V=tensors.v is not None, C=C,
    )  # fmt: skip

    # My positions and rows. The last tiles may extend beyond s, or beyond the last head. Rows that
    # don't exist are neither loaded nor stored. Pointers are to element 0 of each row.
    first_s, s_offset, s, row, b = place_of_tile(s_block, row_block, b, C)
    s_exists = s < seq_len
    exists = s_exists[:, None, None] & (row < heads)[None, :, :]
    x_head, y_head = packed_heads(row, is_kv, C)
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, x_head, b, ALIGNED=C.aligned)
    if tensors.slots is None:
        y_rows = row_pointers(y_ptr, y_strides, first_s, s_offset, y_head, b, ALIGNED=C.out_aligned)
        is_written = exists
    else:  # Load the slot now and use it last, so that no other load waits for it.
        slot = tl.load(tensors.slots + s, s < listed, other=-1)

    # The load of a table row waits for the token's id. So calls with v, which are often short, load
    # the id first. On the fly, no load waits for the id, so loading it first would only delay the
    # rows.
    HAS_IDS: tl.constexpr = tensors.ids is not None
    IDS_FIRST: tl.constexpr = tensors.v is not None and HAS_IDS and not C.on_the_fly
    if IDS_FIRST:
        position, in_sequence = find_positions(
            s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
            cp_rank, C=C,
        )  # fmt: skip

    # Load every element once, first of all: the loads are in flight while cos and sin are computed.
    # A column is a pair: x1 has first members, x2 second ones, and the tail all elements that don't
    # rotate. `pair` has 64 bits, because with a large stride of d, the last element of a row may be
    # more than 2^31 elements from the first.
    pair = tl.arange(0, triton.next_power_of_2(C.half)).to(tl.int64)
    x1, x2, tail = load_rows(
        x_rows, x_strides[3], pair, exists, INTERLEAVED=C.reads_interleaved, C=C
    )

    # v doesn't rotate, and keeps the order in which it was read.
    if tensors.v is not None:
        if is_v:
            if tensors.slots is not None:
                y_rows, is_written = cache_pointers(
                    y_ptr, y_strides, s, y_head, exists, is_kv, slot, cache_slots, page,
                    ALIGNED=C.out_aligned,
                )  # fmt: skip
            store_rows(
                y_rows, y_strides[3], pair, x1, x2, tail, is_written,
                INTERLEAVED=C.reads_interleaved, C=C,
            )  # fmt: skip
            return

    # In a packed batch, `find_positions` searches for each token's sequence in a loop. ptxas would
    # move the loads above below that loop, and a program would wait for memory twice. It moves no
    # load across a barrier.
    if tensors.cu_seqlens is not None:
        tl.debug_barrier()

    # Frequencies are reduced before the search, which waits for memory.
    turns = None
    if C.on_the_fly and tensors.cu_seqlens is not None:
        turns = load_turns(tensors, pair, pair < C.half)

    # Cosines and sines of my tokens' angles. In a table, the two members of a pair may have
    # different angles, so each has its own cosine and sine. In a half-split table these are in the
    # columns `pair` and `pair + C.half`.
    if not IDS_FIRST:
        position, in_sequence = find_positions(
            s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
            cp_rank, C=C,
        )  # fmt: skip
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position[:, None], s_exists[:, None], b, pair, pair < C.half, (pair, pair + C.half),
        tensors, table_strides, table_len, C=C, turns=turns,
    )  # fmt: skip

    # Rotate in fp32 (fp64 for fp64), round, and store every element once. A packed token outside
    # all sequences is padding, and is copied. q_out's dtype may differ from q's: in PyTorch, the
    # product of bf16 rows and fp32 cosines is fp32, and a model that multiplies them returns fp32.
    # `dtype.element_ty` of a pointer is the dtype of its elements.
    is_rotated = None
    if tensors.cu_seqlens is not None:
        is_rotated = in_sequence[:, None, None]
    y1, y2 = rotate_pairs(
        x1, x2, cos1, sin1, cos2, sin2, is_rotated,
        TRANSPOSE=C.transpose, ROUNDING=ROUNDING, COMPUTES_COS_SIN=tensors.sin is None,
        RETURNED=tensors.q_out.dtype.element_ty,
    )  # fmt: skip
    if tensors.slots is not None:
        y_rows, is_written = cache_pointers(
            y_ptr, y_strides, s, y_head, exists, is_kv, slot, cache_slots, page,
            ALIGNED=C.out_aligned,
        )  # fmt: skip
    store_rows(
        y_rows, y_strides[3], pair, y1, y2, tail, is_written, INTERLEAVED=C.writes_interleaved, C=C
    )


@triton.jit
def my_tile(
    tensors,
    read_strides,
    written_strides,
    seq_len,
    batch,
    q_heads,
    k_heads,
    HAS_V: tl.constexpr,
    C: tl.constexpr,
):
    """A program's tile, and the tensor that it belongs to.

    Blocks of k's rows are numbered after q's, and v's after k's. Their programs follow q's programs
    of the same positions (with `C.rows_outer`, of the same stretch). They need the same rows of the
    table, which are then still in L2.

    Returns the block of positions, the block of rows and the batch entry; the heads of the tensor;
    whether it is k or v, and whether it is v; pointer and strides of the input, and of the output.
    They are chosen with `tl.where`, so the rest of the kernel is the same for all three tensors.
    """
    q_blocks, k_blocks = tl.cdiv(q_heads, C.rows), tl.cdiv(k_heads, C.rows)
    row_blocks = q_blocks
    if tensors.k is not None:
        row_blocks += k_blocks
    if HAS_V:
        row_blocks += k_blocks
    s_block, row_block, b = tile_of_program(
        tl.program_id(0), tl.cdiv(seq_len, C.positions), row_blocks, batch, C=C
    )
    heads, is_kv, is_v = q_heads, False, False
    x_ptr, x_strides = tensors.q, read_strides[0]
    y_ptr, y_strides = tensors.q_out, written_strides[0]
    if tensors.k is not None:
        is_kv = row_block >= q_blocks
        if HAS_V:
            is_v = row_block >= q_blocks + k_blocks
            row_block -= tl.where(is_v, k_blocks, 0)
        row_block -= tl.where(is_kv, q_blocks, 0)
        heads = tl.where(is_kv, k_heads, q_heads)
        x_ptr, y_ptr = tl.where(is_kv, tensors.k, x_ptr), tl.where(is_kv, tensors.k_out, y_ptr)
        x_strides = select_strides(is_kv, read_strides[1], x_strides)
        y_strides = select_strides(is_kv, written_strides[1], y_strides)
    if HAS_V:
        x_ptr, y_ptr = tl.where(is_v, tensors.v, x_ptr), tl.where(is_v, tensors.v_out, y_ptr)
        x_strides = select_strides(is_v, read_strides[2], x_strides)
        y_strides = select_strides(is_v, written_strides[2], y_strides)
    return s_block, row_block, b, heads, is_kv, is_v, x_ptr, x_strides, y_ptr, y_strides


@triton.jit
def tile_of_program(program, s_blocks, row_blocks, batch, C: tl.constexpr):
    """A program's block of positions, block of rows, and batch entry, in the order of memory.

    Programs start roughly in order, so those that run at the same time share DRAM pages, and table
    rows in L2.

    A stretch is `C.stretch` blocks of positions. Programs take all rows and batch entries of a
    stretch before the next one, so that the stretch's rows of the table stay in L2.
    """
    first_block = 0
    blocks = s_blocks
    b = s_blocks * 0  # A tensor: `place_of_tile` calls `b.to`, which a plain 0 does not have.
    if C.stretch is not None:
        all_row_blocks = row_blocks if batch is None else row_blocks * batch
        first_block = program // all_row_blocks // C.stretch * C.stretch
        # From here on, programs and blocks of positions are counted from the start of the stretch:
        # program % (all_row_blocks * C.stretch). This is computed from the quotient and remainder
        # by all_row_blocks, which saves a division that decoding would wait for.
        program = program % all_row_blocks + program // all_row_blocks % C.stretch * all_row_blocks
        blocks = min(s_blocks - first_block, C.stretch) if C.stretch > 1 else 1
    if C.rows_outer:
        s_block, row_block = program % blocks, program // blocks
        if batch is not None:
            row_block, b = row_block % row_blocks, row_block // row_blocks
    else:
        row_block, s_block = program % row_blocks, program // row_blocks
        if batch is not None:
            s_block, b = s_block % blocks, s_block // blocks
    return first_block + s_block, row_block, b


@triton.jit
def select_strides(is_first, first, second):
    """The four strides `first` if `is_first`, else `second`. `tl.where` takes no tuples."""
    s, b = tl.where(is_first, first[0], second[0]), tl.where(is_first, first[1], second[1])
    h, d = tl.where(is_first, first[2], second[2]), tl.where(is_first, first[3], second[3])
    return s, b, h, d


@triton.jit
def place_of_tile(s_block, row_block, b, C: tl.constexpr):
    """Where a tile is, as (first_s, s_offset, s, row, b).

    These are its first position; its positions relative to that, (positions, 1); its positions,
    (positions,); its rows, (rows, 1); and its batch entry. All except the rows have 64 bits,
    because offsets computed from them may exceed 2^31 elements.

    `first_s` and `s_offset` are separate because `row_pointers` adds `first_s` to the tensor's
    pointer, a scalar, and tells Triton how the sum is aligned.
    """
    first_s = s_block.to(tl.int64) * C.positions
    s_offset = tl.arange(0, C.positions).to(tl.int64)
    row = (row_block * C.rows + tl.arange(0, C.rows))[:, None]
    return first_s, s_offset[:, None], first_s + s_offset, row, b.to(tl.int64)


@triton.jit
def packed_heads(row, is_kv, C: tl.constexpr):
    """The heads of rows, in the input and in the output.

    In a grouped projection, heads of k and v follow each group of q's, and q's rows skip them.
    Strides can't express that.
    """
    x_head, y_head = row, row
    if C.read_group > 0:
        x_head += tl.where(is_kv, 0, row // C.read_group * 2)
    if C.write_group > 0:
        y_head += tl.where(is_kv, 0, row // C.write_group * 2)
    return x_head, y_head


@triton.jit
def row_pointers(ptr, strides, first_s, s_offset, row, b, ALIGNED: tl.constexpr):
    """Pointers to element 0 of each row, with 64-bit offsets: (positions, rows, 1).

    In `wide_kernel`, a column has its own position or row, so the last dimension is the columns.
    """
    s_stride, b_stride, h_stride = whole_units(ptr, strides, ALIGNED)
    ptr += first_s * s_stride
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    row_offset = b * b_stride + row.to(tl.int64) * h_stride
    return ptr + ((s_offset * s_stride)[:, None, :] + row_offset[None, :, :])


@triton.jit
def whole_units(ptr, strides, ALIGNED: tl.constexpr):
    """The strides of s, b and h, written so that the compiler sees that ALIGNED bytes divide them.

    Triton knows only whether 16 divides a stride in elements. Rows of 72 elements of 2 bytes are
    144 bytes apart, a multiple of 16 bytes, but 16 doesn't divide 72, so loads would be narrow.
    `72 // 8 * 8` is still 72, and from it the compiler sees that 8 divides all sums.
    """
    s_stride, b_stride, h_stride = strides[0], strides[1], strides[2]
    if ALIGNED > 0:
        UNIT: tl.constexpr = max(1, ALIGNED * 8 // ptr.dtype.element_ty.primitive_bitwidth)
        s_stride, b_stride = s_stride // UNIT * UNIT, b_stride // UNIT * UNIT
        h_stride = h_stride // UNIT * UNIT
    return s_stride, b_stride, h_stride


@triton.jit
def load_rows(
    row_ptrs,  # pointers to element 0 of each row
    d_stride,  # from one element of a row to the next: the last of its strides
    pair,  # (columns,): the number of each column's pair
    exists,  # whether a row exists
    INTERLEAVED: tl.constexpr,
    C: tl.constexpr,
    OTHER: tl.constexpr = None,  # value of an element that doesn't exist; None: undefined
):
    """Rows in three pieces: first members of pairs, second ones, and the tail, which is copied."""
    row_ptrs += tl.cast(C.start, tl.int64) * d_stride
    if INTERLEAVED:  # Load pairs together: two loads of every other element would be narrow.
        COLUMNS: tl.constexpr = pair.shape[0]
        both = tl.arange(0, 2 * COLUMNS).to(tl.int64)[None, None, :]
        members = tl.load(row_ptrs + both * d_stride, exists & (both < 2 * C.half), OTHER)
        members = tl.reshape(members, (members.shape[0], members.shape[1], COLUMNS, 2))
        x1, x2 = tl.split(members)
    else:
        pair_exists = exists & (pair < C.half)[None, None, :]
        x1 = tl.load(row_ptrs + (pair * d_stride)[None, None, :], pair_exists, OTHER)
        x2 = tl.load(row_ptrs + ((pair + C.half) * d_stride)[None, None, :], pair_exists, OTHER)
    tail = tl.zeros((1, 1, 1), x1.dtype)
    if C.tail > 0:
        element, is_tail = tail_elements(C)
        tail_exists = exists & is_tail[None, None, :]
        tail = tl.load(row_ptrs + (element * d_stride)[None, None, :], tail_exists, OTHER)
    return x1, x2, tail


@triton.jit
def tail_elements(C: tl.constexpr):
    """The elements that don't rotate, counted from `C.start`, and which columns have one."""
    index = tl.arange(0, triton.next_power_of_2(C.tail))
    # Each branch is a whole sum. With `index + tl.where(...)`, Triton 3.9 doesn't see that elements
    # are neighbors in memory, and loads 2 bytes at a time.
    element = tl.where(
        index < C.start, index.to(tl.int64) - C.start, index.to(tl.int64) - C.start + 2 * C.half
    )
    return element, index < C.tail


@triton.jit
def find_positions(
    s,  # int64: my tokens
    s_exists,
    b,
    tensors,
    first_position,
    ids_strides,
    seq_len,
    sequences,
    cp_size,
    cp_rank,
    C: tl.constexpr,
):
    """Each token's position in its sequence, and whether it is in a sequence.

    It starts with a token's index in its sequence, and `length`, the sequence's number of tokens,
    both counted on this rank. If ranks share sequences, the index becomes the one among the tokens
    of all ranks. First position and start are added. An id overrides all of these.

    `C.cp_order` says which tokens of a sequence rank r of n has; None: ranks share no sequence.
    "zigzag": chunks r and 2n - 1 - r of 2n equal chunks.
    "contiguous": chunk r of n.
    "round_robin": tokens r, r + n, r + 2n, and so on.
    """
    # `s * 0` creates a block with an int64 for each token, like those that `find_sequences`
    # returns. The masked load of starts needs a block, and a position may need 64 bits.
    sequence = s * 0 + b
    position = s
    length = s * 0 + seq_len
    in_sequence = s_exists
    if tensors.cu_seqlens is not None:
        ranks = 1 if C.cp_order is None else cp_size
        sequence, position, length, in_sequence = find_sequences(
            s, tensors.cu_seqlens, sequences, ranks
        )
    if C.cp_order == "zigzag":
        # A rank holds chunks cp_rank and 2 * cp_size - 1 - cp_rank. Indices in the second start at
        # one chunk: - 2.
        chunk = length // 2
        from_the_end = 2 * cp_size.to(tl.int64) - 2 - cp_rank
        position += tl.where(position < chunk, cp_rank, from_the_end) * chunk
    elif C.cp_order == "contiguous":
        position += length * cp_rank
    elif C.cp_order == "round_robin":
        position = position * cp_size + cp_rank
    if first_position is not None:
        position += first_position
    if tensors.starts is not None:
        position += tl.load(tensors.starts + sequence, in_sequence, other=0).to(tl.int64)
    if tensors.ids is not None:
        id_ptr = tensors.ids + b * ids_strides[0] + s * ids_strides[1]
        position = tl.load(id_ptr, s_exists, other=0).to(tl.int64)
    return position, in_sequence


@triton.jit
def find_sequences(token, cu_seqlens_ptr, sequences, ranks):
    """Each token's sequence, its index there, the sequence's length, and whether it is in one.

    `cu_seqlens` counts tokens of all ranks; index and length count those on this rank. A token's
    sequence is the last one that starts at or before it; an empty sequence has the same start as
    the next one.

    The search knows that this start is number `low`, or one of the `span` starts after it. Each
    step compares PROBES evenly spaced candidates, one per thread of a warp. Every step waits for
    memory, so fewer steps are faster, even with more loads.
    """
    PROBES: tl.constexpr = 32 // token.shape[0] if token.shape[0] < 16 else 2
    low = token * 0  # A block from the start, because a loop can't change a variable's type.
    span = sequences
    while span > 0:
        apart = (span - 1) // PROBES + 1
        probe = low[:, None] + apart * tl.arange(1, PROBES + 1)[None, :]
        start = tl.load(cu_seqlens_ptr + probe, probe <= sequences, other=0).to(tl.int64)
        before = (start <= (token * ranks)[:, None]) & (probe <= sequences)
        low += apart * tl.sum(before.to(tl.int64), 1)
        span = apart - 1
    in_sequence = token * ranks < tl.load(cu_seqlens_ptr + sequences).to(tl.int64)
    in_sequence &= low < sequences  # Without sequences, the line above may be true.
    start = tl.load(cu_seqlens_ptr + low).to(tl.int64)
    end = tl.load(cu_seqlens_ptr + low + 1, in_sequence, other=0).to(tl.int64)
    return low, token - start // ranks, (end - start) // ranks, in_sequence


@triton.jit
def find_cos_sin(
    position,  # of each token, (positions, 1) or (1, columns)
    token_exists,  # whether a token exists, in the same shape
    b,
    pair,  # (columns,): the number of each column's pair
    has_pair,  # whether a column has one
    half_split,  # the columns of both members in a half-split table
    tensors,
    table_strides,
    table_len,
    C: tl.constexpr,
    turns=None,  # on the fly: what `load_turns` returned; None: it wasn't called before
):
    """Cosines and sines of both members of each pair, (positions, 1, columns).

    They are computed from frequencies or from a table of angles, or loaded from two tables.

    A table with a column for each element is interleaved if pairs are interleaved in the input or
    in the output. With `output_pairing="half"`, that is only one of them: the input of a forward,
    or the output of a backward.
    """
    STORED: tl.constexpr = tensors.q.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    if C.on_the_fly:
        if C.positions == 1:
            # As a block with one dimension, pairs are distributed over all threads. With two,
            # (1, columns), threads of other rows would evaluate the same sines.
            COLUMNS: tl.constexpr = pair.shape[0]
            position = tl.reshape(tl.broadcast_to(position, (1, COLUMNS)), (COLUMNS,))
        if turns is None:
            turns = load_turns(tensors, pair, has_pair)
        angle = angles_on_the_fly(position, turns[0], turns[1], COMPUTED=COMPUTED)
        cos1, sin1 = cos_sin(angle, False, C.fast_sine, BITS)
        if C.attention_factor is not None:
            cos1, sin1 = cos1 * C.attention_factor, sin1 * C.attention_factor
        if len(position.shape) == 1:
            cos1, sin1 = cos1[None, :], sin1[None, :]
        cos2, sin2 = cos1, sin1
    else:
        column1, column2 = half_split
        if C.one_per_pair:
            column1, column2 = pair, pair
        elif C.reads_interleaved or C.writes_interleaved:
            column1, column2 = 2 * pair, 2 * pair + 1
        # A position outside the table gives NaN, which shows in the result. A token or pair that
        # doesn't exist gives 0, because a norm sums the squares of all rotated columns.
        exists = token_exists & has_pair[None, :]
        in_table = exists & (position >= 0) & (position < table_len)
        other = tl.where(exists, float("nan"), 0.0)
        row_of_table = (b * table_strides[0] + position * table_strides[1]) * C.table_unit
        offset1 = row_of_table + (column1 * table_strides[2])[None, :]
        offset2 = row_of_table + (column2 * table_strides[2])[None, :]
        # Load everything before the first sine; otherwise a program would wait for memory twice.
        entry1 = tl.load(tensors.table + offset1, in_table, other).to(COMPUTED)
        entry2 = entry1
        if not C.one_per_pair:
            entry2 = tl.load(tensors.table + offset2, in_table, other).to(COMPUTED)
        if tensors.sin is not None:  # Entries are cosines, not angles.
            cos1, cos2 = entry1, entry2
            sin1 = tl.load(tensors.sin + offset1, in_table, other).to(COMPUTED)
            sin2 = sin1
            if not C.one_per_pair:
                sin2 = tl.load(tensors.sin + offset2, in_table, other).to(COMPUTED)
        else:
            cos1, sin1 = cos_sin(entry1, True, C.fast_sine, BITS)
            cos2, sin2 = cos1, sin1
            if not C.one_per_pair:
                cos2, sin2 = cos_sin(entry2, True, C.fast_sine, BITS)
    if C.inverse:
        sin1, sin2 = -sin1, -sin2
    return cos1[:, None, :], sin1[:, None, :], cos2[:, None, :], sin2[:, None, :]


@triton.jit
def load_turns(tensors, pair, exists):
    """Each pair's frequency, as (turns, turn): see `turns_of`, and a turn in radians with its sign.

    A frequency of 2^23 or more, or one that is not finite, gives NaN.
    """
    COMPUTED: tl.constexpr = tl.float64 if tensors.q.dtype.element_ty == tl.float64 else tl.float32
    frequency = tl.load(tensors.table + pair, exists, other=0)
    turns = turns_of(frequency)
    turn = tl.full(frequency.shape, 6.283185307179586, COMPUTED)
    turn = tl.where(frequency < 0, -turn, turn)
    turn = tl.where(tl.abs(frequency) < 8388608.0, turn, float("nan"))
    return turns, turn


@triton.jit
def angles_on_the_fly(position, turns, turn, COMPUTED: tl.constexpr):
    """Angles in radians, without full turns, from what `load_turns` returns.

    In units of 2^-64 turns, overflow of int64 removes full turns and nothing else, so no large
    product is rounded. For fp32, the upper 32 bits are enough.
    """
    if len(position.shape) == 2:
        turns, turn = turns[None, :], turn[None, :]
    fraction = position * turns
    if COMPUTED == tl.float64:
        return fraction.to(COMPUTED) * (turn * 2.0**-64)
    return (fraction >> 32).to(tl.int32).to(COMPUTED) * (turn * 2.0**-32)


@triton.jit
def turns_of(frequency):
    """The absolute value of radians per position as int64, in units of 2^-64 turns.

    Full turns are dropped. Payne and Hanek's reduction: a frequency is m * 2^-n, with an integer m
    of 32 bits (64 for fp64). The first 64 bits of m * 2 / pi, shifted, are the turns. The error is
    at most 2 units, or 2^-62 of a frequency above 4.
    """
    HIGH: tl.constexpr = 0xA2F9836E  # 2 / pi, in units of 2^-32
    LOW: tl.constexpr = 0x4E441529  # what is left of it, in units of 2^-64
    if frequency.dtype == tl.float64:
        bits = frequency.to(tl.uint64, bitcast=True)
        m = bits << 11 | 0x8000000000000000
        product = tl.umulhi(m, tl.full(bits.shape, HIGH << 32 | LOW, tl.uint64))
        right = 1024 - (bits >> 52 & 0x7FF).to(tl.int32)
    else:
        bits = frequency.to(tl.uint32, bitcast=True)
        m = bits << 8 | 0x80000000
        product = m.to(tl.uint64) * HIGH + tl.umulhi(m, tl.full(bits.shape, LOW, tl.uint32))
        right = 128 - (bits >> 23 & 0xFF).to(tl.int32)
    # A frequency from 2 to 4 needs no shift. A shift by 64 bits or more is undefined.
    product = product >> tl.minimum(tl.maximum(right, 0), 63).to(tl.uint64)
    product = product << tl.minimum(tl.maximum(-right, 0), 63).to(tl.uint64)
    return product.to(tl.int64)


@triton.jit
def cos_sin(
    angle, HAS_WHOLE_TURNS: tl.constexpr, FAST_SINE: tl.constexpr, BITS: tl.constexpr
):  # fmt: skip
    """Cosine and sine of angles in radians, for elements of BITS bits.

    Errors are up to 5e-7 for 16-bit elements, and up to 2e-7 for 32-bit ones. For 64-bit elements,
    they are accurate to fp64.
    """
    if FAST_SINE and HAS_WHOLE_TURNS:
        # Subtract full turns first: the library's sine has a slow branch for large angles, and the
        # hardware's is accurate only from -pi to pi. 2 pi is split into three numbers, two of them
        # with few bits, so that up to ten million radians, only the last FMA rounds.
        whole = tl.floor(tl.fma(angle, 0.15915494309189535, 0.5))
        angle = tl.fma(whole, -6.28125, angle)
        angle = tl.fma(whole, -0.0019350051879882812, angle)
        angle = tl.fma(whole, -3.019915981956753e-07, angle)
    if FAST_SINE and BITS == 16:  # These are the hardware's approximations.
        return libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    return tl.cos(angle), tl.sin(angle)


@triton.jit
def rotate_pairs(
    x1,
    x2,
    cos1,  # of the first member's angle, which may differ from the second's
    sin1,
    cos2,
    sin2,
    is_rotated,  # whether a token is rotated, or only copied; None: all are rotated
    TRANSPOSE: tl.constexpr,
    ROUNDING: tl.constexpr,
    COMPUTES_COS_SIN: tl.constexpr,  # from angles or frequencies, not loaded from a table
    RETURNED: tl.constexpr,
):
    """Rotate every pair in the dtype of its cosine, and round to RETURNED.

    The transposed map swaps the two sines and negates them. It is the inverse only if both members
    have the same angle.

    ROUNDING says where values are rounded. All except "once" return the bits of models in PyTorch.
    "once": only the result, with FMA.
    "upcast": only the result, without FMA.
    "model": each product, too; and cosines and sines, if they are computed.
    "promoted": forward as "upcast", transposed as "model".
    """
    before1, before2 = x1, x2
    if TRANSPOSE:
        sin1, sin2 = -sin2, -sin1
    if ROUNDING == "once":
        x1, x2 = x1.to(cos1.dtype), x2.to(cos1.dtype)
        y1 = tl.fma(x1, cos1, -(x2 * sin1))
        y2 = tl.fma(x2, cos2, x1 * sin2)
    else:  # These are the steps of PyTorch's operators. `launch.py` turns off FMA.
        ROUNDS_COS_SIN: tl.constexpr = ROUNDING == "model" and COMPUTES_COS_SIN
        ROUNDS: tl.constexpr = ROUNDING == "model" or (ROUNDING == "promoted" and TRANSPOSE)
        y1 = product(x1, cos1, ROUNDS_FACTOR=ROUNDS_COS_SIN, ROUNDS=ROUNDS, RETURNED=RETURNED)
        y1 -= product(x2, sin1, ROUNDS_FACTOR=ROUNDS_COS_SIN, ROUNDS=ROUNDS, RETURNED=RETURNED)
        y2 = product(x2, cos2, ROUNDS_FACTOR=ROUNDS_COS_SIN, ROUNDS=ROUNDS, RETURNED=RETURNED)
        y2 += product(x1, sin2, ROUNDS_FACTOR=ROUNDS_COS_SIN, ROUNDS=ROUNDS, RETURNED=RETURNED)
    y1, y2 = y1.to(RETURNED), y2.to(RETURNED)
    if is_rotated is not None:
        y1, y2 = tl.where(is_rotated, y1, before1), tl.where(is_rotated, y2, before2)
    return y1, y2


@triton.jit
def product(
    x, factor, ROUNDS_FACTOR: tl.constexpr, ROUNDS: tl.constexpr, RETURNED: tl.constexpr
):  # fmt: skip
    """x * factor in the factor's dtype, fp32 or fp64; factor and product may round to RETURNED."""
    if ROUNDS_FACTOR:
        factor = factor.to(RETURNED).to(factor.dtype)
    found = x.to(factor.dtype) * factor
    if ROUNDS:
        found = found.to(RETURNED).to(factor.dtype)
    return found


@triton.jit
def store_rows(
    row_ptrs,  # as in `load_rows`
    d_stride,
    pair,
    y1,
    y2,
    tail,
    exists,
    INTERLEAVED: tl.constexpr,
    C: tl.constexpr,
):
    """Store rows in three pieces where `load_rows` would read them."""
    row_ptrs += tl.cast(C.start, tl.int64) * d_stride
    if INTERLEAVED:
        COLUMNS: tl.constexpr = pair.shape[0]
        both = tl.arange(0, 2 * COLUMNS).to(tl.int64)[None, None, :]
        members = tl.reshape(tl.join(y1, y2), (y1.shape[0], y1.shape[1], 2 * COLUMNS))
        tl.store(row_ptrs + both * d_stride, members, exists & (both < 2 * C.half))
    else:
        pair_exists = exists & (pair < C.half)[None, None, :]
        tl.store(row_ptrs + (pair * d_stride)[None, None, :], y1, pair_exists)
        tl.store(row_ptrs + ((pair + C.half) * d_stride)[None, None, :], y2, pair_exists)
    if C.tail > 0:
        element, is_tail = tail_elements(C)
        tail_exists = exists & is_tail[None, None, :]
        tl.store(row_ptrs + (element * d_stride)[None, None, :], tail, tail_exists)


@triton.jit
def cache_pointers(
    # The output.
    ptr,  # a cache; for rows of q, q's output
    strides,  # of block, page, h and d for a cache; of s, b, h and d for q's output
    # A program's rows.
    s,  # int64: my tokens
    row,  # (rows, 1): the heads in the output
    exists,  # whether a row exists
    is_kv,  # whether they go into a cache
    # Their place in a cache.
    slot,  # of each token, as in `slot_mapping`
    cache_slots,
    page,
    # Bytes that divide addresses: see `whole_units`.
    ALIGNED: tl.constexpr,
):
    """Pointers to element 0 of each row at its token's slot, and which rows are written.

    Rows of q ignore slots and go to q's output. Both share this code: `tl.where` chooses a number
    before it is multiplied by a stride. If it chose one of two products, Triton 3.9 wouldn't see
    that 16 divides the offset, and would store 2 bytes at a time.
    """
    slot = slot.to(tl.int64)
    has_slot = (slot >= 0) & (slot < cache_slots)
    # Use 32 bits if all slots fit: a 64-bit division takes longer than the rest of a short call.
    slot = tl.where(has_slot, slot, 0).to(cache_slots.dtype)
    block = slot // page
    place = (slot - block * page).to(tl.int64)
    token_stride, place_stride, h_stride = whole_units(ptr, strides, ALIGNED)
    token = tl.where(is_kv, block.to(tl.int64), s) * token_stride
    token += place * tl.where(is_kv, place_stride, 0)
    if ALIGNED > 0:
        ptr = tl.multiple_of(ptr, ALIGNED)
    offset = token[:, None, None] + (row.to(tl.int64) * h_stride)[None, :, :]
    has_place = has_slot | (is_kv == 0)
    return ptr + offset, exists & has_place[:, None, None]
