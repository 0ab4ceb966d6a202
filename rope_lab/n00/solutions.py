"""A solution of notebook 00, for mistakes that are made in it. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each program stores twice its block of x."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    x = tl.load(x_ptr + i, mask=exists)
    tl.store(out_ptr + i, 2 * x, mask=exists)


def scaled_copy(x, block=256):
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), block),)
    scaled_copy_kernel[grid](x, out, x.numel(), BLOCK=block)
    return out
