"""The kernel that rotates queries and keys, and the parts that all kernels are made of.

Start with `rope_kernel`. It does what rung 7 of notebook 09 does: a Triton program loads a tile of
rows, finds cosines and sines of its angles, turns the pairs, and stores the rows. The other
functions follow in the order in which `rope_kernel` calls them. `arguments.py` has its tensors and
its constants by name.

Rung 7 does not have these parts: keys and values in the same launch, strides, several positions in
a tile, another order of tiles, positions other than 0, 1, 2, and so on, sequences that several GPUs
share, rows with a tail, interleaved pairs, tables of cosines and angles without a table, cosines
and sines with a factor, turns by minus the angle, rounding as a model rounds, heads that a
projection packs, and caches.

A row is one head of one batch entry at one position. A pair is two elements of a row that turn
together: its first and its second member. A tile is what one program takes: some positions, and
some rows of each. Rows of one position turn by the same angles, so they share cosines and sines.
One program owns both members of a pair, so every element is read once, written once, and may be
overwritten.

Blocks have shape (positions, rows, columns). What does not depend on the row has shape
(positions, 1, columns). In a tile a column is a pair. In a table it is an element, or with
`C.one_per_pair` a pair. x is what is read, y is what is written.

Rung 7's `position` is two things here. `s` is a token's place in the tensor, which decides its
address. `position` is its place in its sequence, which decides its angles.

What is None is absent from the call. Triton decides an `if` on that, on a constant of `C`, or on a
name in capitals, when it compiles: a kernel holds only the lines that its call needs.

There is no torch and no launching here: `launch.py` makes the arguments of a call. Two more files
have kernels made of the same parts: for rows better aligned than halves (`wide_kernel.py`), and
with a norm (`norms/kernel.py`).
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# Triton compiles one more kernel for an integer that is 1, or that 16 divides. It does not look at
# these: a new position, length, table or rank takes the kernel that is there.
SIZES = ["first_position", "seq_len", "batch", "q_heads", "k_heads", "table_len", "sequences"]
SIZES += ["cp_size", "cp_rank"]


@triton.jit(do_not_specialize=[*SIZES, "listed", "cache_slots"])
def rope_kernel(
    tensors,  # `Tensors`: what is read and written, and by which angles rows turn
    first_position,  # position at which every sequence starts; or None: 0
    # Sizes and strides. ptxas loads arguments in their order, and a launch for one new token, as in
    # decoding, waits for all that come before its loads of rows. So sizes and strides of ids and of
    # the table come before those of rows: that and one division less took such a launch from 2.58
    # to 2.30 µs (benchmarks/NOTES.md).
    seq_len,  # s, or the number of packed tokens
    batch,  # b; or None: it is 1, or heads of all entries are counted together
    q_heads,  # of one batch entry, or of all: see `batch`
    k_heads,  # heads of k, and of v
    ids_strides,  # of b and s
    table_strides,  # of b, s and columns; those of b and s in units of `C.table_unit`
    read_strides,  # of q, and of k and v if they are there: each of s, b, h and d
    written_strides,  # of their results; those of a cache are of block, page, h and d
    table_len,  # s2
    sequences,  # number of packed sequences
    cp_size,  # GPUs, each a rank, that share every sequence: context parallelism
    cp_rank,  # which of these ranks this is
    listed,  # tokens, from the first one on, that have a slot; or None: no cache
    cache_slots,  # slots of a cache: blocks * page
    page,  # slots of a block
    C: tl.constexpr,  # `Constants`
):
    ROUNDING: tl.constexpr = C.rounding  # Triton 3.6 takes no text of a field for a constant.

    # My tile: a block of positions, a block of rows of q, k or v, and a batch entry. From here on
    # x_ptr and x_strides are those of my tensor, y_ptr and y_strides those of its result.
    s_block, row_block, b, heads, is_kv, is_v, x_ptr, x_strides, y_ptr, y_strides = my_tile(
        tensors, read_strides, written_strides, seq_len, batch, q_heads, k_heads,
        HAS_V=tensors.v is not None, C=C,
    )  # fmt: skip

    # My positions and rows. The last tiles may reach past s, or past the last head: rows that do
    # not exist are neither loaded nor stored. Pointers are to element 0 of each row.
    first_s, s_offset, s, row, b = place_of_tile(s_block, row_block, b, C)
    s_exists = s < seq_len
    exists = s_exists[:, None, None] & (row < heads)[None, :, :]
    x_head, y_head = packed_heads(row, is_kv, C)
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, x_head, b, ALIGNED=C.aligned)
    if tensors.slots is None:
        y_rows = row_pointers(y_ptr, y_strides, first_s, s_offset, y_head, b, ALIGNED=C.out_aligned)
        is_written = exists
    else:  # The slot is loaded now and used last, so no other load waits for it.
        slot = tl.load(tensors.slots + s, s < listed, other=-1)

    # A row of a table can't be loaded before the token's id is there. So beside v, in calls that
    # may be short, the id is loaded first. On the fly nothing waits for it that long: there it
    # would only delay the rows.
    HAS_IDS: tl.constexpr = tensors.ids is not None
    IDS_FIRST: tl.constexpr = tensors.v is not None and HAS_IDS and not C.on_the_fly
    if IDS_FIRST:
        position, in_sequence = find_positions(
            s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
            cp_rank, C=C,
        )  # fmt: skip

    # Load every element once, first of all: the loads are in flight while cos and sin are computed.
    # A column is a pair: x1 has first members, x2 second ones, and the tail all that does not turn.
    # `pair` has 64 bits, because elements of a row may be so far apart that the last one is more
    # than 2^31 from the first.
    pair = tl.arange(0, triton.next_power_of_2(C.half)).to(tl.int64)
    x1, x2, tail = load_rows(
        x_rows, x_strides[3], pair, exists, INTERLEAVED=C.reads_interleaved, C=C
    )

    # v does not turn, and stays in the order that it was read in.
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

    # In a packed batch, `find_positions` searches for the sequence of each token. That is a loop.
    # ptxas moves no load up across a loop, but it would move the loads above down below the loop,
    # and a program would wait for memory twice. It moves no load across a barrier.
    if tensors.cu_seqlens is not None:
        tl.debug_barrier()

    # Cosines and sines of my tokens' angles. The two members of a pair may have different angles in
    # a table, so each has its own cosine and sine. In a half-split table these are in the columns
    # `pair` and `pair + C.half`. `pair` is passed twice: as the number of the pair, and as the
    # column of its first member, which is another number in `wide_kernel`.
    if not IDS_FIRST:
        position, in_sequence = find_positions(
            s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
            cp_rank, C=C,
        )  # fmt: skip
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position[:, None], s_exists[:, None], b, pair, pair < C.half, pair, pair + C.half, tensors,
        table_strides, table_len, C=C,
    )  # fmt: skip

    # Turn in fp32 (fp64 for fp64), round, and store every element once. A packed token that is in
    # no sequence is padding, and passes through. q_out's dtype may differ from q's: PyTorch's
    # product of bf16 rows and fp32 cosines is fp32, and a model that multiplies them returns it.
    # `dtype.element_ty` of a pointer is the dtype of what it points to.
    is_rotated = None
    if tensors.cu_seqlens is not None:
        is_rotated = in_sequence[:, None, None]
    y1, y2 = turn(
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
    """A program's tile, and which tensor it is of.

    Blocks of k's rows are numbered after q's, and v's after k's. Their programs follow those of q
    at the same positions; with `C.rows_outer`, those of q in the same stretch. They turn by the
    same angles, which L2 then still has.

    It returns the block of positions, the block of rows and the batch entry; the heads of the
    tensor; whether it is k or v, and whether it is v; its pointer and strides, and those of what is
    written. `tl.where` chooses pointers and sizes, and all that follows is the same for each.
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

    Programs start roughly in order, so those in flight share DRAM pages, and table rows in L2.

    A stretch is `C.stretch` blocks of positions. Programs take all rows and batch entries of a
    stretch before those of the next one, as long as L2 still has its rows of the table.
    """
    first_block = 0
    blocks = s_blocks
    b = s_blocks * 0  # A tensor, as b is elsewhere: a plain 0 has no `.to` for `place_of_tile`.
    if C.stretch is not None:
        all_row_blocks = row_blocks if batch is None else row_blocks * batch
        first_block = program // all_row_blocks // C.stretch * C.stretch
        # From here on, programs and blocks of positions are counted from the start of the stretch.
        # That makes program % (all_row_blocks * C.stretch). It is written with the quotient and the
        # remainder that are there already, because a decoded token waits for each division.
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

    They are its first position; its positions counted from that, (positions, 1); its positions,
    (positions,); its rows, (rows, 1); and its batch entry. All but the rows have 64 bits, because
    an offset made of them may pass 2^31 elements.

    `first_s` and `s_offset` are apart because `row_pointers` adds `first_s` to the tensor's
    pointer, a scalar, and tells Triton how that is aligned.
    """
    first_s = s_block.to(tl.int64) * C.positions
    s_offset = tl.arange(0, C.positions).to(tl.int64)
    row = (row_block * C.rows + tl.arange(0, C.rows))[:, None]
    return first_s, s_offset[:, None], first_s + s_offset, row, b.to(tl.int64)


@triton.jit
def packed_heads(row, is_kv, C: tl.constexpr):
    """Which heads rows are of, in what is read and in what is written.

    In a group, heads of k and v follow those of q, which no strides can say: q steps over them.
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

    Where each column has a position or a row of its own, as in `wide_kernel`, they have columns.
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

    Triton learns of a stride only whether 16 divides it, in elements. Rows of 72 elements of 2
    bytes are 144 bytes apart: 16 bytes divide that, but 16 doesn't divide 72, and loads would be
    narrow. `72 // 8 * 8` is 72, and the compiler knows that 8 divides it, in any sum.
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
    exists,  # whether a row is there
    INTERLEAVED: tl.constexpr,
    C: tl.constexpr,
    OTHER: tl.constexpr = None,  # value of an element that is not there; None: undefined
):
    """Rows in three pieces: first members of pairs, second ones, and the tail, which passes."""
    row_ptrs += tl.cast(C.start, tl.int64) * d_stride
    if INTERLEAVED:  # One load is wide where two would take every other element.
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
    """The elements that do not turn, counted from `C.start`, and which columns have one."""
    index = tl.arange(0, triton.next_power_of_2(C.tail))
    # Each branch is a whole sum. Triton 3.9 does not see that elements are neighbors in memory if
    # one of two numbers is added to `index`, and then loads 2 bytes at a time.
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

    It begins with a token's index in its sequence, and `length`, how many tokens the sequence has:
    both as this rank has them. Where ranks share a sequence, the index becomes that among tokens of
    all ranks. First position and start are added. An id overrides all of these.

    `C.cp_order` says which tokens of a sequence rank r of n has, or is None if ranks share none.
    "zigzag": chunks number r and 2n - 1 - r of 2n equal chunks.
    "contiguous": chunk number r of n.
    "round_robin": tokens r, r + n, r + 2n, and so on.
    """
    # `s * 0` makes blocks with an int64 for each token, as `find_sequences` returns them. Loads of
    # starts need a block of pointers for their mask, and a position may need 64 bits.
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
        # Of 2 * cp_size chunks a rank has number cp_rank, from both ends. An index in the second
        # one, number 2 * cp_size - 1 - cp_rank, already counts one chunk, hence - 2.
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
    """Each token's sequence, its index there, that one's length, and whether it is in one.

    `cu_seqlens` counts tokens of all ranks; index and length are those on this one. A token is in
    the sequence with the last start that is not after it; empty sequences have the same start as
    the next one.

    That start is number `low`, or one of the `span` starts after it. A step compares PROBES of
    these, evenly spaced, one per thread of a warp. Every step waits for memory, so fewer steps are
    faster, even with more loads.
    """
    PROBES: tl.constexpr = 32 // token.shape[0] if token.shape[0] < 16 else 2
    low = token * 0  # A block at once: a loop keeps its variables' types.
    span = sequences
    while span > 0:
        apart = (span - 1) // PROBES + 1
        probe = low[:, None] + apart * tl.arange(1, PROBES + 1)[None, :]
        start = tl.load(cu_seqlens_ptr + probe, probe <= sequences, other=0).to(tl.int64)
        before = (start <= (token * ranks)[:, None]) & (probe <= sequences)
        low += apart * tl.sum(before.to(tl.int64), 1)
        span = apart - 1
    in_sequence = token * ranks < tl.load(cu_seqlens_ptr + sequences).to(tl.int64)
    in_sequence &= low < sequences  # Without any sequence, the only start may be after the token.
    start = tl.load(cu_seqlens_ptr + low).to(tl.int64)
    end = tl.load(cu_seqlens_ptr + low + 1, in_sequence, other=0).to(tl.int64)
    return low, token - start // ranks, (end - start) // ranks, in_sequence


@triton.jit
def find_cos_sin(
    position,  # of each token, (positions, 1) or (1, columns); or on the fly (columns,)
    token_exists,  # whether a token is there, in the same shape
    b,
    pair,  # (columns,): the number of each column's pair
    has_pair,  # whether a column has one
    first,  # which column of a half-split table the first member of the pair has
    second,  # the same of the second member
    tensors,
    table_strides,
    table_len,
    C: tl.constexpr,
):
    """Cosines and sines of both members of each pair, (positions, 1, columns).

    They are computed from turns, loaded from a table of cosines and one of sines, or computed from
    a table of angles.

    A table that has a column for each element is interleaved if pairs are so on either side. With
    `output_pairing="half"` they are so on one side: a forward reads them interleaved, and a
    backward writes them interleaved.
    """
    STORED: tl.constexpr = tensors.q.dtype.element_ty
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    if C.on_the_fly:
        angle = angles_on_the_fly(position, tensors.table, pair, has_pair, COMPUTED=COMPUTED)
        cos1, sin1 = cos_sin(angle, False, C.fast_sine, BITS)
        if C.attention_factor is not None:
            cos1, sin1 = cos1 * C.attention_factor, sin1 * C.attention_factor
        if len(position.shape) == 1:
            cos1, sin1 = cos1[None, :], sin1[None, :]
        cos2, sin2 = cos1, sin1
    else:
        column1, column2 = first, second
        if C.one_per_pair:
            column1, column2 = pair, pair
        elif C.reads_interleaved or C.writes_interleaved:
            column1, column2 = 2 * pair, 2 * pair + 1
        # A position outside of the table gives NaN, which is seen in the result. A token or a pair
        # that isn't there gives 0, because a norm adds up squares of all that it has turned.
        exists = token_exists & has_pair[None, :]
        in_table = exists & (position >= 0) & (position < table_len)
        other = tl.where(exists, float("nan"), 0.0)
        row_of_table = (b * table_strides[0] + position * table_strides[1]) * C.table_unit
        offset1 = row_of_table + (column1 * table_strides[2])[None, :]
        offset2 = row_of_table + (column2 * table_strides[2])[None, :]
        # All loads come before the first sine, or a program would wait for memory twice.
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
def angles_on_the_fly(position, turns_ptr, pair, exists, COMPUTED: tl.constexpr):
    """Angles in radians, less whole turns, from `turns`: how far each pair turns per position.

    Turns are int64, in units of 2^-64 of a whole turn. So int64 wraps around once per whole turn:
    its overflow removes whole turns and nothing else, and angles are right to fp32's last digits at
    any position. fp32 can use the upper 32 bits alone.
    """
    turns = tl.load(turns_ptr + pair, exists, other=0)
    if len(position.shape) == 2:
        turns = turns[None, :]
    fraction = position * turns  # of a whole turn
    if COMPUTED == tl.float64:
        return fraction.to(COMPUTED) * (6.283185307179586 * 2.0**-64)
    return (fraction >> 32).to(tl.int32).to(COMPUTED) * (6.283185307179586 * 2.0**-32)


@triton.jit
def cos_sin(
    angle, HAS_WHOLE_TURNS: tl.constexpr, FAST_SINE: tl.constexpr, BITS: tl.constexpr
):  # fmt: skip
    """Cosine and sine of angles in radians, for elements of so many BITS.

    They are right to 5e-7 for 16-bit elements, to 2e-7 for 32-bit, and to the last digit for
    64-bit.
    """
    if FAST_SINE and HAS_WHOLE_TURNS:
        # Remove whole turns first: the library's sine has a slow branch for large angles, and the
        # hardware's is accurate from -pi to pi. 2 pi comes in three pieces, two of them with few
        # bits: up to ten million radians, only the last fused multiply-add rounds.
        whole = tl.floor(tl.fma(angle, 0.15915494309189535, 0.5))
        angle = tl.fma(whole, -6.28125, angle)
        angle = tl.fma(whole, -0.0019350051879882812, angle)
        angle = tl.fma(whole, -3.019915981956753e-07, angle)
    if FAST_SINE and BITS == 16:  # These are the GPU's own approximations.
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
    is_rotated,  # whether a token turns, or passes through; or None: all turn
    TRANSPOSE: tl.constexpr,
    ROUNDING: tl.constexpr,
    COMPUTES_COS_SIN: tl.constexpr,  # from angles or turns; else a table of cosines was given
    RETURNED: tl.constexpr,
):
    """Rotate every pair in the dtype of its cosine, and round to RETURNED.

    The transposed map differs in two signs, and in which sine it takes: it is the inverse only
    where both members have the same angle.

    ROUNDING says where values are rounded, so that a model in PyTorch finds its own bits.
    "once": the result alone, of fused multiply-adds.
    "upcast": the result alone, but no product and sum are fused.
    "model": each product, too; and cosines and sines, where they are computed.
    "promoted": forward as "upcast", transposed as "model".
    """
    before1, before2 = x1, x2
    if TRANSPOSE:
        sin1, sin2 = -sin2, -sin1
    if ROUNDING == "once":
        x1, x2 = x1.to(cos1.dtype), x2.to(cos1.dtype)
        y1 = tl.fma(x1, cos1, -(x2 * sin1))
        y2 = tl.fma(x2, cos2, x1 * sin2)
    else:  # These are the steps of PyTorch's operators. `launch.py` forbids to fuse them.
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
    """x * factor in the dtype of the factor, fp32 or fp64, with its values rounded to RETURNED."""
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
    """Write rows in three pieces to where `load_rows` would read them."""
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
    # What is written.
    ptr,  # a cache; where rows are of q, q's output
    strides,  # a cache's of block, page, h and d; those of q's output of s, b, h and d
    # Which rows a program has.
    s,  # int64: my tokens
    row,  # (rows, 1): where heads go
    exists,  # whether a row is there
    is_kv,  # whether they go into a cache
    # Where in a cache they go.
    slot,  # of each token, as it is listed
    cache_slots,
    page,
    # What Triton may assume: see `whole_units`.
    ALIGNED: tl.constexpr,
):
    """Pointers to element 0 of each row at its token's slot, and which rows are written.

    Rows of q go to their tokens in q's output, whatever the slot is. Both share this code, so each
    number is chosen before it meets a stride. If one of two products were chosen, Triton 3.9 would
    not see that 16 divides the offset, and would store 2 bytes at a time.
    """
    slot = slot.to(tl.int64)
    has_slot = (slot >= 0) & (slot < cache_slots)
    # In 32 bits if all slots fit: a 64-bit division takes longer than the rest of a short call.
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
