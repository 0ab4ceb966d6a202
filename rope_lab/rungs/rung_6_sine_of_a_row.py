"""Rung 6, notebook 09: cos and sin of a row of angles, and the broadcast afterwards."""

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
    BLOCK_R: tl.constexpr,  # rows a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    TRANSPOSE: tl.constexpr,  # the backward; t is the gradient of the output
):
    row_blocks = tl.cdiv(rows, BLOCK_R)
    position = tl.program_id(0) // row_blocks
    row = tl.program_id(0) % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)
    pair = tl.arange(0, BLOCK_HALF)
    exists = (row < rows)[:, None] & (pair < HALF)[None, :]
    angle_ptr = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=pair < HALF)
    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)
    cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]
    cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]
    if TRANSPOSE:
        sin1, sin2 = -sin2, -sin1
    offset = ((position * rows + row) * 2 * HALF)[:, None] + pair[None, :]
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    tl.store(out_ptr + offset, x1 * cos1 - x2 * sin1, mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * cos2 + x1 * sin2, mask=exists)


def my_rope(t, freqs, out=None, transpose=False):
    s, b, h, d = t.shape
    block_r, num_warps = 8, 1
    if out is None:
        out = torch.empty_like(t)
    grid = (s * triton.cdiv(b * h, block_r),)
    my_rope_kernel[grid](
        t,
        freqs,
        out,
        b * h,
        HALF=d // 2,
        BLOCK_R=block_r,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        TRANSPOSE=transpose,
        num_warps=num_warps,
    )
    return out
