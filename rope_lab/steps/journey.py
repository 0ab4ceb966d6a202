"""The kernels on the way, as notebooks 04 and 05 build them, kept to be compared with.

They are simple before they are fast, and each docstring says what is wrong with it. Importing this
loads Triton.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..rungs import rung_2_row
from ..rungs.rows import launch

# Notebook 04: RoPE in one kernel, each element loading its partner


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
    other = tl.load(t_ptr + row * D + partner).to(tl.float32)
    quarter = tl.where(in_first_half, -other, other)
    tl.store(out_ptr + row * D + column, x * tl.cos(angle) + quarter * tl.sin(angle))


def first_rope(t: Tensor, freqs: Tensor) -> Tensor:
    out = torch.empty_like(t)
    s, h, d = t.shape[0], t.shape[-2], t.shape[-1]
    first_rope_kernel[(s * h,)](t, freqs, out, h, D=d)
    return out


@triton.jit
def naive_rope_kernel(
    t_ptr,  # input (s, b, h, d)
    freqs_ptr,  # angles (s, 1, 1, d2), contiguous
    out_ptr,  # output, contiguous; or t itself, which is a race
    n,  # number of elements
    batch,  # b
    heads,  # h
    stride_s,  # strides of t in elements; its last dimension is contiguous
    stride_b,
    stride_h,
    D: tl.constexpr,  # d
    D2: tl.constexpr,  # d2
    BLOCK: tl.constexpr,  # elements per program, a power of two
):
    """Each element loads its partner, and its own angle: reads everything twice."""
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
    other = tl.load(row_ptr + partner, mask=rotates, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D2 + column, mask=rotates, other=0.0)
    quarter = tl.where(in_first_half, -other, other)
    tl.store(out_ptr + i, x * tl.cos(angle) + quarter * tl.sin(angle), mask=exists)


def naive_rope(t: Tensor, freqs: Tensor, block: int = 1024, out: Tensor | None = None) -> Tensor:
    _, b, h, d = t.shape
    if out is None:
        out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    naive_rope_kernel[(triton.cdiv(t.numel(), block),)](
        t, freqs, out, t.numel(), b, h, *t.stride()[:3], D=d, D2=freqs.shape[-1], BLOCK=block
    )
    return out


# Notebook 05: one program owns both halves. Notebook 10 calls rung 2 by this name.

half_split_row_kernel = rung_2_row.my_rope_kernel


def half_split_row(t: Tensor, freqs: Tensor, out: Tensor | None = None) -> Tensor:
    return rung_2_row.my_rope(t, freqs, out)


@triton.jit
def half_split_tile_kernel(
    t_ptr,  # input (s, b, h, d), contiguous
    freqs_ptr,  # angles (s, 1, 1, d), contiguous
    out_ptr,  # output like t; may be t itself
    rows,  # b * h, rows of one position
    HALF: tl.constexpr,  # d / 2
    BLOCK_R: tl.constexpr,  # rows a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
):
    """One program a tile of rows of one position: cos and sin once for all of them."""
    row_blocks = tl.cdiv(rows, BLOCK_R)
    position = tl.program_id(0) // row_blocks
    row = tl.program_id(0) % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)
    pair = tl.arange(0, BLOCK_HALF)
    exists = (row < rows)[:, None] & (pair < HALF)[None, :]
    offset = ((position * rows + row) * 2 * HALF)[:, None] + pair[None, :]
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    angle_ptr = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=pair < HALF)[None, :]
    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)[None, :]
    tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)


def half_split_tile(t: Tensor, freqs: Tensor, block_r: int = 8, num_warps: int = 1) -> Tensor:
    return launch(half_split_tile_kernel, t, freqs, block_r=block_r, num_warps=num_warps)
