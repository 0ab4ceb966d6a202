"""The Triton kernel: no torch, no launching. `launch.py` prepares every argument.

A row is one head of one batch entry at one position: d elements. One program rotates a tile of
`BLOCK_S` positions x `BLOCK_R` rows. It owns both members of its pairs, so every element is read
once, written once, and may be overwritten; and it computes cos and sin once for all its rows of a
position. An argument that is None is not there, and Triton leaves out the lines that need it.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _sequences_of(
    token,  # (BLOCK_S,) int64: indices into the packed batch
    cu_seqlens_ptr,  # (sequences + 1,) int32 or int64: sequence starts, then the last end
    sequences,  # number of packed sequences
    cp_size,  # ranks that share every sequence evenly
    PROBES: tl.constexpr,  # starts looked at in one step of the search, a power of two
):
    """Of each token: its sequence, where that starts, its length, and whether there is one."""
    # The last start <= token is `low` or one of the `span` starts after it. Empty sequences share
    # their start with the next one, so the last such start is the right one. A step looks at PROBES
    # starts at once, evenly apart: each step waits for memory, so few steps count, not few loads.
    low = token * 0
    span = sequences
    while span > 0:
        apart = (span - 1) // PROBES + 1
        probe = low[:, None] + apart * tl.arange(1, PROBES + 1)[None, :]
        start = tl.load(cu_seqlens_ptr + probe, probe <= sequences, other=0).to(tl.int64)
        before = (start <= (token * cp_size)[:, None]) & (probe <= sequences)
        low += apart * tl.sum(before.to(tl.int64), 1)
        span = apart - 1
    in_sequence = token * cp_size < tl.load(cu_seqlens_ptr + sequences).to(tl.int64)
    in_sequence &= low < sequences  # if the first start is not 0
    start = tl.load(cu_seqlens_ptr + low).to(tl.int64)
    end = tl.load(cu_seqlens_ptr + low + 1, in_sequence, other=0).to(tl.int64)
    return low, start // cp_size, (end - start) // cp_size, in_sequence


@triton.jit
def _cos_sin(
    angle,  # radians
    FAST_SINE: tl.constexpr,  # as below
    BITS: tl.constexpr,  # of an element of the result
):
    """Cosine and sine: with 16 bits to 5e-7, with 32 to 2e-7, with 64 to the last."""
    if FAST_SINE:
        # Whole turns away first: the library's sine has a slow branch for large angles, and the
        # hardware's is good from -pi to pi. 2 pi comes in three pieces, of which two have few bits:
        # up to ten million radians, fused multiply-adds round nothing but the last step.
        turns = tl.floor(tl.fma(angle, 0.15915494309189535, 0.5))
        angle = tl.fma(turns, -6.28125, angle)
        angle = tl.fma(turns, -0.0019350051879882812, angle)
        angle = tl.fma(turns, -3.019915981956753e-07, angle)
        if BITS == 16:
            return libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    return tl.cos(angle), tl.sin(angle)


@triton.jit
def _either(
    is_k,  # whether this program rotates k
    k,  # four strides of k
    q,  # four strides of q
):
    s, b = tl.where(is_k, k[0], q[0]), tl.where(is_k, k[1], q[1])
    return s, b, tl.where(is_k, k[2], q[2]), tl.where(is_k, k[3], q[3])


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def rope_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, alike, or None
    q_out_ptr,  # outputs, alike; they may be the inputs
    k_out_ptr,
    table_ptr,  # angles or cosines, (b, s2, d2); or int64, (d2 / 2,): 2^-64 turns a position
    sin_ptr,  # sines, if the table holds cosines, or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, and the last ends; or None
    starts_ptr,  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    sequences,  # number of packed sequences
    cp,  # (cp_size, cp_rank): this rank has two chunks of every sequence; or None
    q_strides,  # of s, b, h, d; in elements, any
    k_strides,
    q_out_strides,
    k_out_strides,
    table_strides,  # of b, s, d; any
    ids_strides,  # of b, s; any
    HALF: tl.constexpr,  # d2 / 2, number of pairs
    TAIL: tl.constexpr,  # elements passed through: d - d2, or 0 in place
    BLOCK_S: tl.constexpr,  # positions a program, a power of two
    BLOCK_R: tl.constexpr,  # rows a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
    PER_BATCH: tl.constexpr,  # a program has rows of one batch entry; False: all share their angles
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows have done before the next ones begin
    FAST_SINE: tl.constexpr,  # sines in fewer steps, which the interpreter and fp64 cannot take
):
    stored: tl.constexpr = q_ptr.dtype.element_ty
    computed: tl.constexpr = tl.float64 if stored == tl.float64 else tl.float32

    # Which positions and rows are mine: one batch entry's rows, if entries are told apart. Programs
    # start about in order, and this is the order in which memory lies: so what is under way at one
    # time lies in few places. The rows of k follow those of q, which turn by the same angles.
    entries = batch if PER_BATCH else 1
    q_rows, k_rows = q_heads * (batch // entries), k_heads * (batch // entries)
    q_blocks = (q_rows - 1) // BLOCK_R + 1
    row_blocks = q_blocks
    if k_ptr is not None:
        row_blocks += (k_rows - 1) // BLOCK_R + 1
    s_blocks = (seq_len - 1) // BLOCK_S + 1
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

    # which tensor is mine
    heads, rows, t_ptr, out_ptr = q_heads, q_rows, q_ptr, q_out_ptr
    t_strides, out_strides = q_strides, q_out_strides
    if k_ptr is not None:
        is_k = row_block >= q_blocks
        row_block -= tl.where(is_k, q_blocks, 0)
        heads, rows = tl.where(is_k, k_heads, q_heads), tl.where(is_k, k_rows, q_rows)
        t_ptr, out_ptr = tl.where(is_k, k_ptr, q_ptr), tl.where(is_k, k_out_ptr, q_out_ptr)
        t_strides = _either(is_k, k_strides, q_strides)
        out_strides = _either(is_k, k_out_strides, q_out_strides)
    row = row_block * BLOCK_R + tl.arange(0, BLOCK_R)

    # 64-bit from here on: an offset may pass 2^31 elements
    b = b.to(tl.int64)
    s = (first_block + s_block).to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
    row_batch, head = (row * 0).to(tl.int64) + b, row.to(tl.int64)
    if not PER_BATCH:
        row_batch, head = (row // heads).to(tl.int64), (row % heads).to(tl.int64)
    s_offset, row_offset = s * t_strides[0], row_batch * t_strides[1] + head * t_strides[2]
    t_row = t_ptr + (s_offset[:, None] + row_offset[None, :])[:, :, None]
    s_offset, row_offset = s * out_strides[0], row_batch * out_strides[1] + head * out_strides[2]
    out_row = out_ptr + (s_offset[:, None] + row_offset[None, :])[:, :, None]
    s_exists = s < seq_len
    row_exists = (s_exists[:, None] & (row < rows)[None, :])[:, :, None]

    # one read of everything, asked for first: it is under way while cos and sin are computed
    pair = tl.arange(0, BLOCK_HALF).to(tl.int64)
    pair_exists = pair < HALF
    mask = row_exists & pair_exists[None, None, :]
    if INTERLEAVED:
        # neighbours in one wide load, then told apart
        first, second = 2 * pair, 2 * pair + 1
        both = tl.arange(0, 2 * BLOCK_HALF).to(tl.int64)[None, None, :]
        stored12 = tl.load(t_row + both * t_strides[3], row_exists & (both < 2 * HALF))
        stored1, stored2 = tl.split(tl.reshape(stored12, (BLOCK_S, BLOCK_R, BLOCK_HALF, 2)))
    else:
        first, second = pair, pair + HALF
        stored1 = tl.load(t_row + (first * t_strides[3])[None, None, :], mask)
        stored2 = tl.load(t_row + (second * t_strides[3])[None, None, :], mask)
    if TAIL > 0:
        tail_mask = row_exists & (tl.arange(0, BLOCK_TAIL) < TAIL)[None, None, :]
        tail = 2 * HALF + tl.arange(0, BLOCK_TAIL).to(tl.int64)
        passed_through = tl.load(t_row + (tail * t_strides[3])[None, None, :], tail_mask)

    # the position of each token in its sequence
    sequence, start, length, in_sequence = s * 0 + b, 0, seq_len, s_exists
    if cu_seqlens_ptr is not None:
        cp_size = 1 if cp is None else cp[0]
        probes: tl.constexpr = 32 // BLOCK_S if BLOCK_S < 16 else 2  # one a thread
        sequence, start, length, in_sequence = _sequences_of(
            s, cu_seqlens_ptr, sequences, cp_size, probes
        )
    position = s - start
    if cp is not None:
        # of 2 cp_size chunks, rank r has number r and, counted from the end, number r again
        chunk = length // 2
        counted_back = 2 * cp[0].to(tl.int64) - 2 - cp[1]
        position += tl.where(position < chunk, cp[1], counted_back) * chunk
    if starts_ptr is not None:
        position += tl.load(starts_ptr + sequence, in_sequence, other=0).to(tl.int64)
    if ids_ptr is not None:
        id_ptr = ids_ptr + b * ids_strides[0] + s * ids_strides[1]
        position = tl.load(id_ptr, s_exists, other=0).to(tl.int64)

    # cos and sin of both members of each pair, once for all rows of a position
    if table_ptr.dtype.element_ty == tl.int64:
        # Counted in 2^-64 turns an int64 wraps around once a turn: its overflow takes whole turns
        # away, and nothing else. fp32 has no use for more than the upper half.
        turns = tl.load(table_ptr + pair, pair_exists, other=0)
        turned = position[:, None] * turns[None, :]
        if computed == tl.float64:
            angle = turned.to(computed) * (6.283185307179586 * 2.0**-64)
        else:
            angle = (turned >> 32).to(tl.int32).to(computed) * (6.283185307179586 * 2.0**-32)
        cos1, sin1 = _cos_sin(angle, FAST_SINE, stored.primitive_bitwidth)
        cos2, sin2 = cos1, sin1
    else:
        # a position past the table turns by NaN
        nan = float("nan")
        in_table = s_exists & (position >= 0) & (position < s2)
        table_mask = in_table[:, None] & pair_exists[None, :]
        table_row = (b * table_strides[0] + position * table_strides[1])[:, None]
        offset1 = table_row + (first * table_strides[2])[None, :]
        offset2 = table_row + (second * table_strides[2])[None, :]
        loaded1 = tl.load(table_ptr + offset1, table_mask, other=nan).to(computed)
        loaded2 = tl.load(table_ptr + offset2, table_mask, other=nan).to(computed)
        if sin_ptr is None:
            cos1, sin1 = _cos_sin(loaded1, FAST_SINE, stored.primitive_bitwidth)
            cos2, sin2 = _cos_sin(loaded2, FAST_SINE, stored.primitive_bitwidth)
        else:
            cos1, cos2 = loaded1, loaded2
            sin1 = tl.load(sin_ptr + offset1, table_mask, other=nan).to(computed)
            sin2 = tl.load(sin_ptr + offset2, table_mask, other=nan).to(computed)
    cos1, sin1 = cos1[:, None, :], sin1[:, None, :]
    cos2, sin2 = cos2[:, None, :], sin2[:, None, :]

    # the rotation; its transpose differs in two signs, and in whose sine it takes
    x1, x2 = stored1.to(computed), stored2.to(computed)
    if TRANSPOSE:
        y1 = x1 * cos1 + x2 * sin2
        y2 = x2 * cos2 - x1 * sin1
    else:
        y1 = x1 * cos1 - x2 * sin1
        y2 = x2 * cos2 + x1 * sin2

    # one rounding, one write of everything
    y1, y2 = y1.to(stored), y2.to(stored)
    if cu_seqlens_ptr is not None:
        y1 = tl.where(in_sequence[:, None, None], y1, stored1)
        y2 = tl.where(in_sequence[:, None, None], y2, stored2)
    if INTERLEAVED:
        y12 = tl.reshape(tl.join(y1, y2), (BLOCK_S, BLOCK_R, 2 * BLOCK_HALF))
        tl.store(out_row + both * out_strides[3], y12, row_exists & (both < 2 * HALF))
    else:
        tl.store(out_row + (first * out_strides[3])[None, None, :], y1, mask)
        tl.store(out_row + (second * out_strides[3])[None, None, :], y2, mask)
    if TAIL > 0:
        tl.store(out_row + (tail * out_strides[3])[None, None, :], passed_through, tail_mask)
