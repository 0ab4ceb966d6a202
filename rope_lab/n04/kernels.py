"""Notebook 04: RoPE in one kernel, each element loading its partner. Importing it loads Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def first_rope_kernel(
    t_ptr,  # input (s, h, d), contiguous
    freqs_ptr,  # angles (s, 1, 1, d), contiguous
    out_ptr,  # output like t
    heads,  # h
    D: tl.constexpr,  # d
):
    """One program a row. Right for one sequence, all of d rotated, d a power of two, contiguous."""
    row = tl.program_id(0)
    position = row // heads
    column = tl.arange(0, D)
    in_first_half = column < D // 2
    partner = tl.where(in_first_half, column + D // 2, column - D // 2)
    angle = tl.load(freqs_ptr + position * D + column)
    x = tl.load(t_ptr + row * D + column).to(tl.float32)
    x_partner = tl.load(t_ptr + row * D + partner).to(tl.float32)
    quarter = tl.where(in_first_half, -x_partner, x_partner)
    tl.store(out_ptr + row * D + column, x * tl.cos(angle) + quarter * tl.sin(angle))


def first_rope(t: Tensor, freqs: Tensor) -> Tensor:
    out = torch.empty_like(t)
    s, h, d = t.shape[0], t.shape[-2], t.shape[-1]
    first_rope_kernel[(s * h,)](t, freqs, out, h, D=d)
    return out
