"""A solution of notebook 05, for mistakes that are made in it. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_q_and_k_kernel(
    q_ptr,  # queries (s, b, h, d)
    k_ptr,  # keys (s, b, g, d)
    freqs_ptr,  # angles (s2, 1, 1, d2), contiguous
    q_out_ptr,  # outputs, contiguous
    k_out_ptr,
    batch,  # b
    q_heads,  # h
    k_heads,  # g
    q_rows,  # s * b * h: so many programs rotate q, the others k
    q_strides,  # tuples of four
    k_strides,
    HALF: tl.constexpr,  # d2 / 2
    TAIL: tl.constexpr,  # d - d2
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two
):
    row, heads, strides = tl.program_id(0), q_heads, q_strides
    t_ptr, out_ptr = q_ptr, q_out_ptr
    if row >= q_rows:
        row, heads, strides = row - q_rows, k_heads, k_strides
        t_ptr, out_ptr = k_ptr, k_out_ptr
    position, sequence, head = row // (batch * heads), row // heads % batch, row % heads
    row_ptr = t_ptr + position * strides[0] + sequence * strides[1] + head * strides[2]
    out_row_ptr = out_ptr + row * (2 * HALF + TAIL)
    pair = tl.arange(0, BLOCK_HALF)
    exists = pair < HALF
    x1 = tl.load(row_ptr + pair * strides[3], mask=exists).to(tl.float32)
    x2 = tl.load(row_ptr + (pair + HALF) * strides[3], mask=exists).to(tl.float32)
    angle_ptr = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=exists)
    angle2 = tl.load(angle_ptr + HALF, mask=exists)
    tl.store(out_row_ptr + pair, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(out_row_ptr + pair + HALF, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)
    if TAIL > 0:
        column = 2 * HALF + tl.arange(0, BLOCK_TAIL)
        passes = column < 2 * HALF + TAIL
        x = tl.load(row_ptr + column * strides[3], mask=passes)
        tl.store(out_row_ptr + column, x, mask=passes)


def rope_q_and_k(q, k, freqs):
    s, b, h, d = q.shape
    g, half = k.shape[2], freqs.shape[-1] // 2
    q_out, k_out = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k))
    grid = (s * b * (h + g),)
    rope_q_and_k_kernel[grid](
        q,
        k,
        freqs,
        q_out,
        k_out,
        b,
        h,
        g,
        s * b * h,
        q.stride(),
        k.stride(),
        HALF=half,
        TAIL=d - 2 * half,
        BLOCK_HALF=triton.next_power_of_2(half),
        BLOCK_TAIL=triton.next_power_of_2(d - 2 * half),
    )
    return q_out, k_out
