"""Notebook 03's kernel, for its measurement: `rotate_half`, gathered."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def rotate_half_gather_kernel(
    x_ptr,  # input, contiguous
    out_ptr,  # output, contiguous
    n,  # number of elements
    HALF: tl.constexpr,  # half of the last dimension
    BLOCK: tl.constexpr,  # elements per program, a power of two
):
    """Each element of a row takes its partner's place; the second half with a minus sign."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    in_first_half = i % (2 * HALF) < HALF
    partner = tl.where(in_first_half, i + HALF, i - HALF)
    x = tl.load(x_ptr + partner, mask=exists)
    tl.store(out_ptr + i, tl.where(in_first_half, -x, x), mask=exists)


def rotate_half_gather(x: Tensor, block: int = 1024) -> Tensor:
    """`rotate_half` of a contiguous tensor, by programs of `block` elements."""
    out, grid = torch.empty_like(x), (triton.cdiv(x.numel(), block),)
    rotate_half_gather_kernel[grid](x, out, x.numel(), HALF=x.shape[-1] // 2, BLOCK=block)
    return out
