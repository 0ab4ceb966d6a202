"""Notebook 13's kernels, with several blocks and tiles. Importing them loads Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

# SwiGLU


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    gate = tl.load(gate_ptr + i, mask=exists).to(tl.float32)
    up = tl.load(up_ptr + i, mask=exists).to(tl.float32)
    tl.store(out_ptr + i, gate * tl.sigmoid(gate) * up, mask=exists)


def swiglu(gate: Tensor, up: Tensor, block: int = 1024) -> Tensor:
    """gate * sigmoid(gate) * up, all contiguous and of one shape and dtype."""
    out, n = torch.empty_like(gate), gate.numel()
    swiglu_kernel[(triton.cdiv(n, block),)](gate, up, out, n, BLOCK=block)
    return out


# The ladder of add + RMSNorm, in place


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
        x,
        residual,
        weight,
        D=x.shape[1],
        BLOCK=block,
        num_warps=num_warps or max(1, block // 1024),
    )


# The ladder of packed RoPE without a table


def packed_rope_by_table(t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor) -> Tensor:
    """A table of angles, then the rotation, in plain PyTorch."""
    token = torch.arange(len(t), device=t.device)
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    angle = (token - cu_seqlens[sequence])[:, None, None] * inv_freq
    cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
    first, second = t.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@triton.jit
def position_of(token, cu_seqlens_ptr, BOUNDS: tl.constexpr, BLOCK_BOUNDS: tl.constexpr):
    """Tokens since the last bound that isn't after this one: where its sequence begins."""
    bound = tl.arange(0, BLOCK_BOUNDS)
    starts = tl.load(cu_seqlens_ptr + bound, mask=bound < BOUNDS, other=0)
    return token - tl.max(tl.where(starts <= token, starts, 0))


@triton.jit
def packed_rope_kernel(
    t_ptr,  # (tokens, heads, 2 HALF), contiguous
    inv_freq_ptr,  # (HALF,) in fp32
    cu_seqlens_ptr,  # (BOUNDS,) in int32
    out_ptr,  # like t
    heads,
    BLOCK_HEADS: tl.constexpr,  # of a program, a power of two
    HALF: tl.constexpr,
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BOUNDS: tl.constexpr,  # number of sequences, plus one
    BLOCK_BOUNDS: tl.constexpr,  # BOUNDS rounded up to a power of two
):
    token = tl.program_id(0)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    pair = tl.arange(0, BLOCK_HALF)
    exists = (head < heads)[:, None] & (pair < HALF)[None, :]
    row = token.to(tl.int64) * heads + head
    offset = (row * 2 * HALF)[:, None] + pair[None, :]
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    position = position_of(token, cu_seqlens_ptr, BOUNDS, BLOCK_BOUNDS)
    angle = position * tl.load(inv_freq_ptr + pair, mask=pair < HALF)
    cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    tl.store(out_ptr + offset, x1 * cos - x2 * sin, mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * cos + x1 * sin, mask=exists)


def packed_rope_by_rows(t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor) -> Tensor:
    """A program for each head of each token: each searches, and evaluates its sines."""
    return packed_rope(t, inv_freq, cu_seqlens, block_heads=1)


def packed_rope(
    t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor, block_heads: int | None = None
) -> Tensor:
    """A program for each token: it searches once, and its heads share the sines."""
    out, (tokens, heads, d) = torch.empty_like(t), t.shape
    block_heads = block_heads or triton.next_power_of_2(heads)
    packed_rope_kernel[(tokens, triton.cdiv(heads, block_heads))](
        t,
        inv_freq,
        cu_seqlens,
        out,
        heads,
        BLOCK_HEADS=block_heads,
        HALF=d // 2,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        BOUNDS=len(cu_seqlens),
        BLOCK_BOUNDS=triton.next_power_of_2(len(cu_seqlens)),
        num_warps=1,
    )
    return out


# The loop of the logarithm of a sum


@triton.jit
def logsumexp_kernel(
    x_ptr,  # (n, D), contiguous
    out_ptr,  # (n,)
    D: tl.constexpr,
    BLOCK: tl.constexpr,  # elements loaded at a time, a power of two
):
    row = tl.program_id(0).to(tl.int64)
    largest, total = -float("inf"), 0.0
    for first in range(0, D, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + column, mask=column < D, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - grown) + tl.sum(tl.exp(x - grown))
        largest = grown
    tl.store(out_ptr + row, largest + tl.log(total))


def logsumexp(x: Tensor, block: int = 4096) -> Tensor:
    n, d = x.shape
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    logsumexp_kernel[(n,)](x, out, D=d, BLOCK=block)
    return out
