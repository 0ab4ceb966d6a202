"""Rotary position embedding (RoPE) in one file: a Triton kernel, its gradient, a check, a timing.

    python rope.py      compare with PyTorch; on a GPU, also time it against a memory copy

Copy the file into your project, or read it first. Notebooks 00 to 09 build this kernel step by
step. The package `rope_kernels` is for other layouts, positions, tables and pairs.
"""

import os
import sys

import torch

if not torch.cuda.is_available() and "triton" not in sys.modules:  # Triton reads it when loaded.
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Its interpreter needs no GPU.

import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    t_ptr,  # input (s, b, h, d), any strides
    freqs_ptr,  # angles in radians, (at least s, 1, 1, d2), fp32, contiguous
    out_ptr,  # output (s, b, h, d), contiguous
    stride_s,  # strides of t, in elements
    stride_b,
    stride_h,
    stride_d,
    rows,  # b * h, rows of one position
    heads,  # h
    D: tl.constexpr,  # d
    HALF: tl.constexpr,  # d2 / 2
    BLOCK_R: tl.constexpr,  # rows a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # d - d2 rounded up to a power of two; 0 if all of d rotates
    TRANSPOSE: tl.constexpr,  # apply the transposed map, which computes gradients
):
    # Rows of one position share their angles. A program has some of these rows, and whole pairs.
    row_blocks = tl.cdiv(rows, BLOCK_R)
    # Offsets have 64 bits, because a tensor may have more than 2^31 elements.
    position = (tl.program_id(0) // row_blocks).to(tl.int64)
    row = (tl.program_id(0) % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)).to(tl.int64)
    pair = tl.arange(0, BLOCK_HALF).to(tl.int64)
    exists = (row < rows)[:, None] & (pair < HALF)[None, :]

    # All loads come first, so that they are in flight while sines are computed.
    t_row = position * stride_s + row // heads * stride_b + row % heads * stride_h
    t_ptrs, out_ptrs = t_ptr + t_row[:, None], out_ptr + ((position * rows + row) * D)[:, None]
    x1 = tl.load(t_ptrs + (pair * stride_d)[None, :], mask=exists).to(tl.float32)
    x2 = tl.load(t_ptrs + ((pair + HALF) * stride_d)[None, :], mask=exists).to(tl.float32)
    angle_ptrs = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptrs, mask=pair < HALF)
    angle2 = tl.load(angle_ptrs + HALF, mask=pair < HALF)

    # The tail passes through unchanged. Triton decides this `if` when it compiles the kernel.
    if BLOCK_TAIL:
        column = 2 * HALF + tl.arange(0, BLOCK_TAIL).to(tl.int64)
        in_tail = (row < rows)[:, None] & (column < D)[None, :]
        tail = tl.load(t_ptrs + (column * stride_d)[None, :], mask=in_tail)
        tl.store(out_ptrs + column[None, :], tail, mask=in_tail)

    # Each sine is computed once, before it is broadcast to the rows.
    cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]
    cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]
    if TRANSPOSE:
        sin1, sin2 = -sin2, -sin1
    tl.store(out_ptrs + pair[None, :], x1 * cos1 - x2 * sin1, mask=exists)
    tl.store(out_ptrs + (pair + HALF)[None, :], x2 * cos2 + x1 * sin2, mask=exists)


def launch(t, freqs, transpose):
    s, b, h, d = t.shape
    d2 = freqs.shape[-1]
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    block_r = 8
    grid = (s * triton.cdiv(b * h, block_r),)
    with torch.cuda.device_of(t):
        rope_kernel[grid](
            t,
            freqs,
            out,
            *t.stride(),
            b * h,
            h,
            D=d,
            HALF=d2 // 2,
            BLOCK_R=block_r,
            BLOCK_HALF=triton.next_power_of_2(d2 // 2),
            BLOCK_TAIL=triton.next_power_of_2(d - d2) if d2 < d else 0,
            TRANSPOSE=transpose,
            num_warps=1,
        )
    return out


class Rotate(torch.autograd.Function):
    """The rotation is linear in t, so its gradient is the same kernel with a flag."""

    @staticmethod
    def forward(ctx, t, freqs, transpose):
        ctx.save_for_backward(freqs)
        ctx.transpose = transpose
        return launch(t, freqs, transpose)

    @staticmethod
    def backward(ctx, grad):
        return Rotate.apply(grad, *ctx.saved_tensors, not ctx.transpose), None, None


def rope(t, freqs):
    """Rotate t (s, b, h, d), in half-split pairs, by the angles freqs (at least s, 1, 1, d2).

    The first d2 elements of a row rotate, and the others pass through. It computes in fp32 and
    rounds once, to t's dtype. It is differentiable in t, not in freqs.
    """
    if t.dim() != 4 or t.dtype not in (torch.bfloat16, torch.half, torch.float):
        came = f"t is {t.dtype} of shape {tuple(t.shape)}"
        raise ValueError(f"{came}; accepted: bf16, fp16 or fp32, (s, b, h, d)")
    d2 = freqs.shape[-1]
    if freqs.shape[0] < t.shape[0] or freqs.shape[1:3] != (1, 1) or d2 % 2 or d2 > t.shape[-1]:
        came = f"freqs has shape {tuple(freqs.shape)}"
        raise ValueError(f"{came}; accepted: (at least s, 1, 1, d2) with an even d2, at most d")
    if freqs.requires_grad or freqs.device != t.device:
        raise ValueError("freqs requires a gradient or is on another device than t")
    return Rotate.apply(t, freqs.float().contiguous(), False)


def angles(s, d, base=10_000.0, device=None):
    """RoFormer's angles, position times frequency: (s, 1, 1, d)."""
    frequency = base ** (-torch.arange(0, d, 2, device=device) / d)
    angle = torch.outer(torch.arange(s, device=device), frequency)
    return torch.cat((angle, angle), dim=-1)[:, None, None, :]


def reference(t, freqs):
    d2, freqs = freqs.shape[-1], freqs[: t.shape[0]]
    x, tail = t[..., :d2].float(), t[..., d2:]
    x1, x2 = x.chunk(2, dim=-1)
    y = x * freqs.cos() + torch.cat((-x2, x1), dim=-1) * freqs.sin()
    return torch.cat((y.to(t.dtype), tail), dim=-1)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for b, s, h, d, d2 in ((2, 5, 3, 64, 64), (1, 7, 9, 72, 48), (2, 130, 4, 128, 128)):
        t = torch.randn(b, s, h, d, device=device).transpose(0, 1).requires_grad_()
        freqs, grad = angles(s, d2, device=device), torch.randn(s, b, h, d, device=device)
        outs = rope(t, freqs), reference(t, freqs)
        grads = [torch.autograd.grad(out, t, grad)[0] for out in outs]
        torch.testing.assert_close(*outs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)
        print(f"(s, b, h, d, d2) = {(s, b, h, d, d2)}: result and gradient are correct")
    if device == "cuda":
        t = torch.randn(2048, 16, 8, 256, device=device, dtype=torch.bfloat16)
        freqs, out = angles(2048, 256, device=device), torch.empty_like(t)
        copy = 1000 * triton.testing.do_bench(lambda: out.copy_(t))
        kernel = 1000 * triton.testing.do_bench(lambda: launch(t, freqs, transpose=False))
        print(f"{tuple(t.shape)} in bf16: {kernel:.1f} us, and a copy takes {copy:.1f} us")


if __name__ == "__main__":
    main()
