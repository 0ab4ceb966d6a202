"""Notebook 13's ladder of add + RMSNorm, in place. Importing it loads Triton."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def in_two_loops_kernel(x_ptr, residual_ptr, weight_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * D
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, D, BLOCK):
        column = first + tl.arange(0, BLOCK)
        exists = column < D
        x = tl.load(x_ptr + start + column, mask=exists, other=0.0).to(tl.float32)
        total = x + tl.load(residual_ptr + start + column, mask=exists, other=0.0).to(tl.float32)
        squares += total * total
    r = tl.rsqrt(tl.sum(squares) / D + 1e-6)
    for first in range(0, D, BLOCK):
        column = first + tl.arange(0, BLOCK)
        exists = column < D
        x = tl.load(x_ptr + start + column, mask=exists).to(tl.float32)
        total = x + tl.load(residual_ptr + start + column, mask=exists).to(tl.float32)
        weight = tl.load(weight_ptr + column, mask=exists)
        tl.store(residual_ptr + start + column, total, mask=exists)
        tl.store(x_ptr + start + column, total * r * weight, mask=exists)


def in_two_loops(x: Tensor, residual: Tensor, weight: Tensor) -> None:
    """A loop adds and sums, a second one adds again and normalizes."""
    in_two_loops_kernel[(len(x),)](x, residual, weight, D=x.shape[1], BLOCK=1024)


@triton.jit
def add_rms_norm_kernel(x_ptr, residual_ptr, weight_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    exists = column < D
    offset = tl.program_id(0).to(tl.int64) * D + column
    x = tl.load(x_ptr + offset, mask=exists, other=0.0).to(tl.float32)
    total = x + tl.load(residual_ptr + offset, mask=exists, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=exists)
    r = tl.rsqrt(tl.sum(total * total) / D + 1e-6)
    tl.store(residual_ptr + offset, total, mask=exists)
    tl.store(x_ptr + offset, total * r * weight, mask=exists)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, num_warps: int | None = None) -> None:
    """residual += x, then x is the norm of that sum, times weight; rows (n, d) contiguous."""
    block = triton.next_power_of_2(x.shape[1])
    add_rms_norm_kernel[(len(x),)](
        *(x, residual, weight),
        D=x.shape[1],
        BLOCK=block,
        num_warps=num_warps or max(1, block // 1024),
    )
