"""Add the shares of a weight's gradient that programs of the backward have written."""

import triton
import triton.language as tl


@triton.jit
def sum_partials_kernel(
    q_partial_ptr,  # (q_shares, d), contiguous
    k_partial_ptr,  # (k_shares, d), or None
    q_out_ptr,  # (d,), of any dtype
    k_out_ptr,
    q_shares,  # numbers of rows to add
    k_shares,
    D: tl.constexpr,  # d
    BLOCK_N: tl.constexpr,  # rows added at a time, a power of two
    BLOCK_D: tl.constexpr,  # columns per program, a power of two
):
    """Add rows, always in the same order: row n to row n + BLOCK_N, then a tree."""
    blocks: tl.constexpr = (D + BLOCK_D - 1) // BLOCK_D
    program = tl.program_id(0)
    partial_ptr, out_ptr, shares = q_partial_ptr, q_out_ptr, q_shares
    if k_partial_ptr is not None:
        is_k = program >= blocks
        partial_ptr = tl.where(is_k, k_partial_ptr, q_partial_ptr)
        out_ptr = tl.where(is_k, k_out_ptr, q_out_ptr)
        shares = tl.where(is_k, k_shares, q_shares)
    column = program % blocks * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros((BLOCK_N, BLOCK_D), partial_ptr.dtype.element_ty)
    for first in range(0, shares, BLOCK_N):
        row = first + tl.arange(0, BLOCK_N)
        mask = (row < shares)[:, None] & (column < D)[None, :]
        total += tl.load(
            partial_ptr + row[:, None].to(tl.int64) * D + column[None, :], mask, other=0
        )
    tl.store(out_ptr + column, tl.sum(total, 0).to(out_ptr.dtype.element_ty), column < D)
