"""A solution of notebook 03, for mistakes that are made in it. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def rotate_half_kernel(
    x_ptr,  # input, contiguous
    out_ptr,  # output, contiguous
    rows,  # number of rows
    HALF: tl.constexpr,  # half of a row, H
    BLOCK_R: tl.constexpr,  # rows of a block, a power of two
    BLOCK_C: tl.constexpr,  # columns of a block: 2 * HALF rounded up to a power of two
):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_C)
    exists = (row[:, None] < rows) & (column[None, :] < 2 * HALF)
    in_first_half = column < HALF
    partner = tl.where(in_first_half, column + HALF, column - HALF)
    sign = tl.where(in_first_half, -1, 1)
    x = tl.load(x_ptr + row[:, None] * 2 * HALF + partner[None, :], mask=exists)
    tl.store(out_ptr + row[:, None] * 2 * HALF + column[None, :], sign[None, :] * x, mask=exists)


def rotate_half(x, block_r=4):
    columns = x.shape[-1]
    rows = x.numel() // columns
    block_c = triton.next_power_of_2(columns)
    out = torch.empty_like(x)
    grid = (triton.cdiv(rows, block_r),)
    rotate_half_kernel[grid](x, out, rows, HALF=columns // 2, BLOCK_R=block_r, BLOCK_C=block_c)
    return out
