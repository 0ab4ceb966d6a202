"""Solutions of notebook 04, for mistakes that are made in them. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def strided_copy_kernel(
    t_ptr,  # input (s, b, h, d), any strides
    out_ptr,  # output (s, b, h, d), contiguous
    n,  # number of elements
    batch,  # b
    heads,  # h
    stride_s,  # strides of t in elements
    stride_b,
    stride_h,
    stride_d,
    D: tl.constexpr,  # d
    BLOCK: tl.constexpr,  # elements a program, a power of two
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    column = i % D
    head = i // D % heads
    position = i // (D * heads * batch)
    sequence = i // (D * heads) % batch
    row_ptr = t_ptr + position * stride_s + sequence * stride_b + head * stride_h
    x = tl.load(row_ptr + column * stride_d, mask=exists)
    tl.store(out_ptr + i, x, mask=exists)


def strided_copy(t, block=1024):
    _, b, h, d = t.shape
    stride_s, stride_b, stride_h, stride_d = t.stride()
    n = t.numel()
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    strided_copy_kernel[(triton.cdiv(n, block),)](
        t, out, n, b, h, stride_s, stride_b, stride_h, stride_d, D=d, BLOCK=block
    )
    return out


@triton.jit
def whole_heads_kernel(
    t_ptr,  # input (s, b, h, d), any strides
    freqs_ptr,  # angles (s2, 1, 1, d), contiguous
    out_ptr,  # output (s, b, h, d), contiguous
    n,  # number of elements
    batch,  # b
    heads,  # h
    stride_s,  # strides of t in elements
    stride_b,
    stride_h,
    stride_d,
    D: tl.constexpr,  # d
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
    in_first_half = column < D // 2
    partner = tl.where(in_first_half, column + D // 2, column - D // 2)
    x_partner = tl.load(row_ptr + partner * stride_d, mask=exists).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D + column, mask=exists)
    quarter = tl.where(in_first_half, -x_partner, x_partner)
    tl.store(out_ptr + i, x * tl.cos(angle) + quarter * tl.sin(angle), mask=exists)


def rotate_whole_heads(t, freqs, block=1024):
    _, b, h, d = t.shape
    stride_s, stride_b, stride_h, stride_d = t.stride()
    n = t.numel()
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    whole_heads_kernel[(triton.cdiv(n, block),)](
        t, freqs, out, n, b, h, stride_s, stride_b, stride_h, stride_d, D=d, BLOCK=block
    )
    return out
