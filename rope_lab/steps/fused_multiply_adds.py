"""Fused multiply-adds, more and more of them, to measure P. Importing this loads Triton."""

from collections.abc import Callable
from functools import partial

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def fma_kernel(x_ptr, out_ptr, a, b, K: tl.constexpr, BLOCK: tl.constexpr):
    """K fused multiply-adds for each element that is read and written."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i).to(tl.float32)
    for _ in range(K // 8):
        for _ in tl.static_range(8):  # eight in a row, so that the loop itself costs little
            x = x * a + b
    tl.store(out_ptr + i, x)


def multiply_adds(x: Tensor, out: Tensor, K: int, block: int = 1024) -> Callable[[], object]:
    """A call that applies K of them to `x`, a multiple of 8; `block` divides its elements."""
    return partial(fma_kernel[(x.numel() // block,)], x, out, 0.999, 0.001, K=K, BLOCK=block)
