"""Notebook 13's ladder of packed RoPE without a table. Importing it loads Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor


def eager(t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor) -> Tensor:
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
    BOUNDS: tl.constexpr,  # sequences, and one
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


def by_rows(t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor) -> Tensor:
    """A program for each head of each token: each searches, and evaluates its sines."""
    return packed_rope(t, inv_freq, cu_seqlens, block_heads=1)


def packed_rope(
    t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor, block_heads: int | None = None
) -> Tensor:
    """A program for each token: it searches once, and its heads share the sines."""
    out, (tokens, heads, d) = torch.empty_like(t), t.shape
    block_heads = block_heads or triton.next_power_of_2(heads)
    packed_rope_kernel[(tokens, triton.cdiv(heads, block_heads))](
        *(t, inv_freq, cu_seqlens, out, heads),
        BLOCK_HEADS=block_heads,
        HALF=d // 2,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        BOUNDS=len(cu_seqlens),
        BLOCK_BOUNDS=triton.next_power_of_2(len(cu_seqlens)),
        num_warps=1,
    )
    return out
