"""Between rungs 1 and 2, notebook 05: a lane owns a pair, and a program takes one row."""

import torch
import triton
import triton.language as tl


@triton.jit
def pairs_kernel(
    t_ptr,  # input (s, b, h, d), contiguous
    freqs_ptr,  # angles (at least s, 1, 1, d), contiguous
    out_ptr,  # output like t; may be t itself
    rows,  # b * h, rows of one position
    HALF: tl.constexpr,  # d / 2
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
):
    row = tl.program_id(0)
    position = row // rows
    pair = tl.arange(0, BLOCK_HALF)
    exists = pair < HALF
    offset = row * 2 * HALF + pair
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    angle_ptrs = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptrs, mask=exists)
    angle2 = tl.load(angle_ptrs + HALF, mask=exists)
    tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)


def rope_by_pairs(t, freqs, out=None):
    s, b, h, d = t.shape
    half = d // 2
    out = torch.empty_like(t) if out is None else out
    block_half = triton.next_power_of_2(half)
    pairs_kernel[(s * b * h,)](t, freqs, out, b * h, HALF=half, BLOCK_HALF=block_half)
    return out
