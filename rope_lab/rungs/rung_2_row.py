"""Rung 2, notebook 05: one program a row; it owns both members of its pairs."""

import torch
import triton
import triton.language as tl


@triton.jit
def my_rope_kernel(
    t_ptr,  # input (s, b, h, d), contiguous
    freqs_ptr,  # angles (s2, 1, 1, d), contiguous
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
    angle_ptr = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=exists)
    angle2 = tl.load(angle_ptr + HALF, mask=exists)
    tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)


def my_rope(t, freqs, out=None):
    s, b, h, d = t.shape
    if out is None:
        out = torch.empty_like(t)
    my_rope_kernel[(s * b * h,)](
        t, freqs, out, b * h, HALF=d // 2, BLOCK_HALF=triton.next_power_of_2(d // 2)
    )
    return out
