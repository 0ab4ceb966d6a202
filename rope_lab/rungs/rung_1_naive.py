"""Rung 1, notebook 04: each element loads its partner, and its own angle."""

import torch
import triton
import triton.language as tl


@triton.jit
def my_rope_kernel(
    t_ptr,  # input (s, b, h, d), any strides
    freqs_ptr,  # angles (s2, 1, 1, d2), contiguous
    out_ptr,  # output (s, b, h, d), contiguous
    n,  # number of elements
    batch,  # b
    heads,  # h
    stride_s,  # strides of t in elements
    stride_b,
    stride_h,
    stride_d,
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
    x = tl.load(row_ptr + column * stride_d, mask=exists).to(tl.float32)
    rotates = exists & (column < D2)
    in_first_half = column < D2 // 2
    partner = tl.where(in_first_half, column + D2 // 2, column - D2 // 2)
    other = tl.load(row_ptr + partner * stride_d, mask=rotates, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D2 + column, mask=rotates, other=0.0)
    quarter = tl.where(in_first_half, -other, other)
    tl.store(out_ptr + i, x * tl.cos(angle) + quarter * tl.sin(angle), mask=exists)


def my_rope(t, freqs, block=1024):
    _, b, h, d = t.shape
    stride_s, stride_b, stride_h, stride_d = t.stride()
    n, d2 = t.numel(), freqs.shape[-1]
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    my_rope_kernel[(triton.cdiv(n, block),)](
        t, freqs, out, n, b, h, stride_s, stride_b, stride_h, stride_d, D=d, D2=d2, BLOCK=block
    )
    return out
