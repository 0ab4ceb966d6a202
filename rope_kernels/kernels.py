"""The Triton kernel: no torch, no launching. `launch.py` prepares every argument.

One program rotates a tile of `BLOCK_S` positions x `BLOCK_R` rows, a row being one head of one
batch entry. It owns both halves of its pairs, so every element is read once and written once, and
it computes cos and sin once for all its rows of a position.
"""

import triton
import triton.language as tl


@triton.jit
def _positions_in_sequences(
    token,  # (BLOCK_S,) int64: indices into the packed batch
    cu_seqlens_ptr,  # (num_sequences + 1,) int32 or int64: sequence starts, then the last end
    num_sequences,  # b
):
    """Position of each token in its own sequence, and whether it lies in one at all."""
    # Bisection for the last start <= token: it is never below `low` nor above `high`. Empty
    # sequences share their start with the next one, so the last such start is the right one. Each
    # step halves what is left; it takes as many as num_sequences has bits.
    low = token * 0
    high = low + num_sequences
    span = num_sequences
    while span > 0:
        middle = (low + high + 1) // 2
        starts_at_or_before = tl.load(cu_seqlens_ptr + middle).to(tl.int64) <= token
        low = tl.where(starts_at_or_before, middle, low)
        high = tl.where(starts_at_or_before, high, middle - 1)
        span = span // 2
    start = tl.load(cu_seqlens_ptr + low).to(tl.int64)
    end_of_last = tl.load(cu_seqlens_ptr + num_sequences).to(tl.int64)
    return token - start, token < end_of_last


@triton.jit(do_not_specialize=["seq_len", "rows", "freqs_len", "num_sequences"])
def rope_kernel(
    t_ptr,  # input, viewed as (s, b, h, d)
    out_ptr,  # output, viewed as (s, b, h, d)
    freqs_ptr,  # angles in radians, (s2, 1, 1, d2)
    cu_seqlens_ptr,  # (num_sequences + 1,), read only if PACKED
    seq_len,  # s, or the number of packed tokens
    rows,  # b * h
    heads,  # h
    freqs_len,  # s2, positions in the table
    num_sequences,  # sequences in the packed batch
    t_stride_s,  # strides of t, in elements; any
    t_stride_b,
    t_stride_h,
    t_stride_d,
    out_stride_s,  # strides of out, in elements; its head dimension is contiguous
    out_stride_b,
    out_stride_h,
    freqs_stride_s,  # strides of freqs, in elements; any
    freqs_stride_d,
    HALF: tl.constexpr,  # d2 / 2, number of pairs
    TAIL: tl.constexpr,  # d - d2, elements passed through
    BLOCK_S: tl.constexpr,  # positions a program, a power of two
    BLOCK_R: tl.constexpr,  # rows a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    PACKED: tl.constexpr,  # positions restart at each sequence of cu_seqlens
    FP64: tl.constexpr,  # compute in fp64 instead of fp32
):
    compute_dtype: tl.constexpr = tl.float64 if FP64 else tl.float32

    # which positions and rows are mine
    row_blocks = (rows - 1) // BLOCK_R + 1
    # 64-bit from here on: an offset may pass 2^31 elements
    s = (tl.program_id(0) // row_blocks).to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
    row = (tl.program_id(0) % row_blocks) * BLOCK_R + tl.arange(0, BLOCK_R)
    batch = (row // heads).to(tl.int64)
    head = (row % heads).to(tl.int64)
    pair = tl.arange(0, BLOCK_HALF).to(tl.int64)

    s_exists = s < seq_len
    pair_exists = pair < HALF
    tile_exists = (s_exists[:, None] & (row < rows)[None, :])[:, :, None]
    mask = tile_exists & pair_exists[None, None, :]

    # one read of everything, asked for first: it is under way while cos and sin are computed
    t_offset = (batch * t_stride_b + head * t_stride_h)[None, :] + (s * t_stride_s)[:, None]
    t_row = t_ptr + t_offset[:, :, None]
    stored1 = tl.load(t_row + (pair * t_stride_d)[None, None, :], mask)
    stored2 = tl.load(t_row + ((pair + HALF) * t_stride_d)[None, None, :], mask)
    if TAIL > 0:
        tail = tl.arange(0, BLOCK_TAIL).to(tl.int64)
        tail_mask = tile_exists & (tail < TAIL)[None, None, :]
        passed_through = tl.load(t_row + ((2 * HALF + tail) * t_stride_d)[None, None, :], tail_mask)

    # cos and sin, once for all rows of a position; a position past the table turns by NaN
    if PACKED:
        position, in_sequence = _positions_in_sequences(s, cu_seqlens_ptr, num_sequences)
    else:
        position = s
    in_table = s_exists & (position >= 0) & (position < freqs_len)
    angle_mask = in_table[:, None] & pair_exists[None, :]
    freqs_row = freqs_ptr + (position * freqs_stride_s)[:, None]
    angle1_ptr = freqs_row + (pair * freqs_stride_d)[None, :]
    angle2_ptr = freqs_row + ((pair + HALF) * freqs_stride_d)[None, :]
    nan = float("nan")
    angle1 = tl.load(angle1_ptr, angle_mask, other=nan).to(compute_dtype)
    angle2 = tl.load(angle2_ptr, angle_mask, other=nan).to(compute_dtype)
    cos1, sin1 = tl.cos(angle1)[:, None, :], tl.sin(angle1)[:, None, :]
    cos2, sin2 = tl.cos(angle2)[:, None, :], tl.sin(angle2)[:, None, :]

    # the rotation; its transpose differs in two signs, and in whose sine it takes
    x1, x2 = stored1.to(compute_dtype), stored2.to(compute_dtype)
    if TRANSPOSE:
        y1 = x1 * cos1 + x2 * sin2
        y2 = x2 * cos2 - x1 * sin1
    else:
        y1 = x1 * cos1 - x2 * sin1
        y2 = x2 * cos2 + x1 * sin2

    # one rounding, one write of everything
    y1 = y1.to(out_ptr.dtype.element_ty)
    y2 = y2.to(out_ptr.dtype.element_ty)
    if PACKED:
        y1 = tl.where(in_sequence[:, None, None], y1, stored1)
        y2 = tl.where(in_sequence[:, None, None], y2, stored2)
    out_offset = (batch * out_stride_b + head * out_stride_h)[None, :] + (s * out_stride_s)[:, None]
    out_row = out_ptr + out_offset[:, :, None]
    y1_ptr = out_row + pair[None, None, :]
    tl.store(y1_ptr, y1, mask)
    tl.store(y1_ptr + HALF, y2, mask)

    if TAIL > 0:
        tl.store(out_row + (2 * HALF + tail)[None, None, :], passed_through, tail_mask)
