"""Kernels of a reader of notebooks 00 to 10, as they were handed in but for the format."""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(
    gate_ptr,  # contiguous
    up_ptr,  # like gate
    out_ptr,  # like gate
    n,  # number of elements
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    gate = tl.load(gate_ptr + i, mask=exists).to(tl.float32)
    up = tl.load(up_ptr + i, mask=exists).to(tl.float32)
    sigmoid = 1 / (1 + tl.exp(-gate))
    tl.store(out_ptr + i, gate * sigmoid * up, mask=exists)


def swiglu(gate, up):
    out, n, block = torch.empty_like(gate), gate.numel(), 1024
    swiglu_kernel[(triton.cdiv(n, block),)](gate, up, out, n, BLOCK=block, num_warps=4)
    return out


@triton.jit
def swiglu_backward_kernel(
    gate_ptr,  # contiguous, as all
    up_ptr,
    d_out_ptr,  # gradient of the output
    d_gate_ptr,  # outputs
    d_up_ptr,
    n,  # number of elements
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    gate = tl.load(gate_ptr + i, mask=exists).to(tl.float32)
    up = tl.load(up_ptr + i, mask=exists).to(tl.float32)
    d_out = tl.load(d_out_ptr + i, mask=exists).to(tl.float32)
    sigmoid = 1 / (1 + tl.exp(-gate))
    common = d_out * sigmoid
    tl.store(d_gate_ptr + i, common * up * (1 + gate * (1 - sigmoid)), mask=exists)
    tl.store(d_up_ptr + i, common * gate, mask=exists)


def swiglu_backward(gate, up, d_out):
    d_gate, d_up = torch.empty_like(gate), torch.empty_like(up)
    n, block = gate.numel(), 1024
    swiglu_backward_kernel[(triton.cdiv(n, block),)](
        gate, up, d_out, d_gate, d_up, n, BLOCK=block, num_warps=4
    )
    return d_gate, d_up


@triton.jit
def add_rms_norm_kernel(
    x_ptr,  # (n, D), contiguous; overwritten by the norm
    residual_ptr,  # (n, D), contiguous; overwritten by the sum
    weight_ptr,  # (D,)
    D: tl.constexpr,  # elements of a row
    BLOCK: tl.constexpr,  # D rounded up to a power of two
):
    column = tl.arange(0, BLOCK)
    exists = column < D
    i = tl.program_id(0).to(tl.int64) * D + column
    x = tl.load(x_ptr + i, mask=exists, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + i, mask=exists, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=exists, other=0.0).to(tl.float32)
    total = x + residual
    r = tl.rsqrt(tl.sum(total * total) / D + 1e-6)
    tl.store(residual_ptr + i, total, mask=exists)
    tl.store(x_ptr + i, total * r * weight, mask=exists)


def add_rms_norm(x, residual, weight):
    d = x.shape[-1]
    block = triton.next_power_of_2(d)
    # at least 32 elements of the row to a lane: 4 warps for 5120, whose last round is then full
    warps = min(32, max(1, triton.next_power_of_2(d // 1024 + 1) // 2))
    add_rms_norm_kernel[(x.numel() // d,)](x, residual, weight, D=d, BLOCK=block, num_warps=warps)


@triton.jit
def packed_rope_kernel(
    t_ptr,  # (tokens, heads, 2 * HALF), contiguous
    inv_freq_ptr,  # (HALF,)
    starts_ptr,  # cu_seqlens
    out_ptr,  # like t
    heads,
    n_starts,  # elements of cu_seqlens
    HALF: tl.constexpr,  # d / 2
    BLOCK_R: tl.constexpr,  # heads a program
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_S: tl.constexpr,  # n_starts rounded up to a power of two
):
    row_blocks = tl.cdiv(heads, BLOCK_R)
    token = tl.program_id(0) // row_blocks
    row = tl.program_id(0) % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)
    pair = tl.arange(0, BLOCK_HALF)
    exists = (row < heads)[:, None] & (pair < HALF)[None, :]
    offset = ((token.to(tl.int64) * heads + row) * 2 * HALF)[:, None] + pair[None, :]
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    s = tl.arange(0, BLOCK_S)
    starts = tl.load(starts_ptr + s, mask=s < n_starts, other=0)
    inv_freq = tl.load(inv_freq_ptr + pair, mask=pair < HALF, other=0.0).to(tl.float32)
    # a sequence starts at the largest number that is not beyond the token
    position = token - tl.max(tl.where(starts <= token, starts, 0))
    angle = position.to(tl.float32) * inv_freq
    cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    tl.store(out_ptr + offset, x1 * cos - x2 * sin, mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * cos + x1 * sin, mask=exists)


def packed_rope(t, inv_freq, cu_seqlens):
    tokens, heads, d = t.shape
    out, n_starts = torch.empty_like(t), cu_seqlens.numel()
    block_half = triton.next_power_of_2(d // 2)
    block_r = min(triton.next_power_of_2(heads), max(1, 1024 // block_half))
    packed_rope_kernel[(tokens * triton.cdiv(heads, block_r),)](
        *(t, inv_freq, cu_seqlens, out, heads, n_starts),
        HALF=d // 2,
        BLOCK_R=block_r,
        BLOCK_HALF=block_half,
        BLOCK_S=triton.next_power_of_2(n_starts),
        num_warps=1,
    )
    return out
