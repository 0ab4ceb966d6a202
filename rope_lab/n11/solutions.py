"""Solutions of notebook 11, for mistakes that are made in them. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    x_ptr,  # input (n, d), contiguous
    weight_ptr,  # (d,)
    out_ptr,  # output like x
    D: tl.constexpr,  # d, elements of a row
    BLOCK: tl.constexpr,  # D rounded up to a power of two
):
    column = tl.arange(0, BLOCK)
    exists = column < D
    offset = tl.program_id(0) * D + column
    x = tl.load(x_ptr + offset, mask=exists, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=exists)
    r = tl.rsqrt(tl.sum(x * x) / D + 1e-6)
    tl.store(out_ptr + offset, x * r * weight, mask=exists)


def rms_norm(x, weight):
    n, d = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(d)
    num_warps = max(1, block // 1024)  # 32 elements a lane
    rms_norm_kernel[(n,)](x, weight, out, D=d, BLOCK=block, num_warps=num_warps)
    return out


@triton.jit
def norm_rope_forward_kernel(
    x_ptr,  # input (s, b, h, d), contiguous
    weight_ptr,  # (d,)
    freqs_ptr,  # angles (s2, 1, 1, d), contiguous
    out_ptr,  # output like x
    rows,  # b * h, rows of one position
    HALF: tl.constexpr,  # d / 2
    BLOCK_R: tl.constexpr,  # rows a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
):
    row_blocks = tl.cdiv(rows, BLOCK_R)
    position = tl.program_id(0) // row_blocks
    row = tl.program_id(0) % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)
    pair = tl.arange(0, BLOCK_HALF)
    exists = (row < rows)[:, None] & (pair < HALF)[None, :]
    offset = ((position * rows + row) * 2 * HALF)[:, None] + pair[None, :]
    x1 = tl.load(x_ptr + offset, mask=exists, other=0.0).to(tl.float32)
    x2 = tl.load(x_ptr + offset + HALF, mask=exists, other=0.0).to(tl.float32)
    angle_ptr = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=pair < HALF)
    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)
    weight1 = tl.load(weight_ptr + pair, mask=pair < HALF)[None, :]
    weight2 = tl.load(weight_ptr + HALF + pair, mask=pair < HALF)[None, :]
    mean = tl.sum(x1 * x1 + x2 * x2, 1) / (2 * HALF)
    r = tl.rsqrt(mean + 1e-6)[:, None]
    x1, x2 = x1 * r * weight1, x2 * r * weight2
    cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]
    cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]
    tl.store(out_ptr + offset, x1 * cos1 - x2 * sin1, mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * cos2 + x1 * sin2, mask=exists)


def norm_rope_forward(x, weight, freqs):
    s, b, h, d = x.shape
    out = torch.empty_like(x)
    block_r = 8
    grid = (s * triton.cdiv(b * h, block_r),)
    norm_rope_forward_kernel[grid](
        x,
        weight,
        freqs,
        out,
        b * h,
        HALF=d // 2,
        BLOCK_R=block_r,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        num_warps=1,
    )
    return out


@triton.jit
def norm_rope_backward_kernel(
    grad_ptr,  # dy (s, b, h, d), contiguous
    x_ptr,  # what the forward read, like dy
    weight_ptr,  # (d,)
    freqs_ptr,  # angles (s2, 1, 1, d), contiguous
    out_ptr,  # dx, like x
    partial_ptr,  # (programs, d): their shares of dw, in fp32
    rows,  # b * h, rows of one position
    tiles,  # of all positions
    HALF: tl.constexpr,  # d / 2
    BLOCK_R: tl.constexpr,  # rows of a tile, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
):
    pair = tl.arange(0, BLOCK_HALF)
    w1 = tl.load(weight_ptr + pair, mask=pair < HALF, other=0.0).to(tl.float32)[None, :]
    w2 = tl.load(weight_ptr + HALF + pair, mask=pair < HALF, other=0.0).to(tl.float32)[None, :]
    sum1 = tl.zeros((BLOCK_R, BLOCK_HALF), tl.float32)
    sum2 = tl.zeros((BLOCK_R, BLOCK_HALF), tl.float32)
    row_blocks = tl.cdiv(rows, BLOCK_R)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        position = tile // row_blocks
        row = tile % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)
        exists = (row < rows)[:, None] & (pair < HALF)[None, :]
        offset = ((position * rows + row) * 2 * HALF)[:, None] + pair[None, :]
        g1 = tl.load(grad_ptr + offset, mask=exists, other=0.0).to(tl.float32)
        g2 = tl.load(grad_ptr + offset + HALF, mask=exists, other=0.0).to(tl.float32)
        x1 = tl.load(x_ptr + offset, mask=exists, other=0.0).to(tl.float32)
        x2 = tl.load(x_ptr + offset + HALF, mask=exists, other=0.0).to(tl.float32)
        angle_ptr = freqs_ptr + position * 2 * HALF + pair
        angle1 = tl.load(angle_ptr, mask=pair < HALF, other=0.0)
        angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF, other=0.0)
        cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]
        cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]
        g1, g2 = g1 * cos1 + g2 * sin2, g2 * cos2 - g1 * sin1  # dn
        rstd = tl.rsqrt(tl.sum(x1 * x1 + x2 * x2, 1) / (2 * HALF) + 1e-6)[:, None]
        x1, x2 = x1 * rstd, x2 * rstd
        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2
        g1, g2 = g1 * w1, g2 * w2
        mean = tl.sum(g1 * x1 + g2 * x2, 1)[:, None] / (2 * HALF)
        g1, g2 = (g1 - x1 * mean) * rstd, (g2 - x2 * mean) * rstd
        tl.store(out_ptr + offset, g1, mask=exists)
        tl.store(out_ptr + offset + HALF, g2, mask=exists)
    mine = partial_ptr + tl.program_id(0) * 2 * HALF + pair
    tl.store(mine, tl.sum(sum1, 0), mask=pair < HALF)
    tl.store(mine + HALF, tl.sum(sum2, 0), mask=pair < HALF)


def norm_rope_backward(grad, x, weight, freqs):
    s, b, h, d = x.shape
    programs, block_r = 4, 8  # a GPU would get some thousand programs
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    partials = torch.empty(programs, d, dtype=torch.float32, device=x.device)
    norm_rope_backward_kernel[(programs,)](
        grad,
        x,
        weight,
        freqs,
        dx,
        partials,
        b * h,
        s * triton.cdiv(b * h, block_r),
        HALF=d // 2,
        BLOCK_R=block_r,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        num_warps=1,
    )
    sum_of_shares_kernel[(1,)](
        partials, dw, D=d, PROGRAMS=programs, BLOCK=triton.next_power_of_2(d)
    )
    return dx, dw


@triton.jit
def sum_of_shares_kernel(
    partial_ptr,  # (programs, d)
    out_ptr,  # (d,)
    D: tl.constexpr,  # d
    PROGRAMS: tl.constexpr,
    BLOCK: tl.constexpr,  # D rounded up to a power of two
):
    share, column = tl.arange(0, PROGRAMS), tl.arange(0, BLOCK)
    exists = column < D
    place = share[:, None] * D + column[None, :]
    shares = tl.load(partial_ptr + place, mask=exists[None, :], other=0.0)
    tl.store(out_ptr + column, tl.sum(shares, 0), mask=exists)
