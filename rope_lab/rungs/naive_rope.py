"""A naive kernel whose blocks may cut rows, for a last dimension that is contiguous.

It takes any other strides. Notebook 08 times it, and a detour of notebook 04 lets it race.

Importing this loads Triton.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def naive_rope_kernel(
    t_ptr,  # input (s, b, h, d), contiguous in d
    freqs_ptr,  # angles (at least s, 1, 1, d2), contiguous
    out_ptr,  # output (s, b, h, d), contiguous
    n,  # number of elements
    batch,  # b
    heads,  # h
    stride_s,  # strides of t in elements
    stride_b,
    stride_h,
    D: tl.constexpr,  # d
    D2: tl.constexpr,  # d2
    BLOCK: tl.constexpr,  # elements a program, a power of two
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    column = i % D
    head = i // D % heads
    sequence = i // (D * heads) % batch
    position = i // (D * heads * batch)
    row_ptr = t_ptr + position * stride_s + sequence * stride_b + head * stride_h
    x = tl.load(row_ptr + column, mask=exists).to(tl.float32)
    rotates = exists & (column < D2)
    in_first_half = column < D2 // 2
    partner = tl.where(in_first_half, column + D2 // 2, column - D2 // 2)
    x_partner = tl.load(row_ptr + partner, mask=rotates, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D2 + column, mask=rotates, other=0.0)
    quarter = tl.where(in_first_half, -x_partner, x_partner)
    tl.store(out_ptr + i, x * tl.cos(angle) + quarter * tl.sin(angle), mask=exists)


def naive_rope(t: Tensor, freqs: Tensor, block: int = 1024) -> Tensor:
    _, b, h, d = t.shape
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    naive_rope_kernel[(triton.cdiv(t.numel(), block),)](
        t,
        freqs,
        out,
        t.numel(),
        b,
        h,
        t.stride(0),
        t.stride(1),
        t.stride(2),
        D=d,
        D2=freqs.shape[-1],
        BLOCK=block,
    )
    return out
