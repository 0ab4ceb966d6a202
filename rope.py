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
    t_ptr,  # (s, b, h, d): any strides of s, b and h, and a stride of 1 in d
    freqs_ptr,  # angles in radians, (at least s, 1, 1, d), fp32, contiguous
    out_ptr,  # like t, contiguous
    stride_s,
    stride_b,
    stride_h,
    rows,  # b * h: all rows of one position
    heads,
    HALF: tl.constexpr,  # d / 2
    BLOCK_R: tl.constexpr,  # rows of a program, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    TRANSPOSE: tl.constexpr,  # apply the transposed map, which computes gradients
):
    # Rows of one position share their angles. A program has some of these rows, and whole pairs.
    row_blocks = tl.cdiv(rows, BLOCK_R)
    # Offsets have 64 bits, because a tensor may have more than 2^31 elements.
    position = (tl.program_id(0) // row_blocks).to(tl.int64)
    row = (tl.program_id(0) % row_blocks * BLOCK_R + tl.arange(0, BLOCK_R)).to(tl.int64)
    pair = tl.arange(0, BLOCK_HALF)
    exists = (row < rows)[:, None] & (pair < HALF)[None, :]

    # All loads come first, so that they are in flight while sines are computed.
    t_row = position * stride_s + row // heads * stride_b + row % heads * stride_h
    t_ptrs = t_ptr + t_row[:, None] + pair[None, :]
    x1 = tl.load(t_ptrs, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptrs + HALF, mask=exists).to(tl.float32)
    angle_ptrs = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptrs, mask=pair < HALF)
    angle2 = tl.load(angle_ptrs + HALF, mask=pair < HALF)

    # Each sine is computed once, before it is broadcast to the rows.
    cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]
    cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]
    if TRANSPOSE:
        sin1, sin2 = -sin2, -sin1

    out_ptrs = out_ptr + ((position * rows + row) * 2 * HALF)[:, None] + pair[None, :]
    tl.store(out_ptrs, x1 * cos1 - x2 * sin1, mask=exists)
    tl.store(out_ptrs + HALF, x2 * cos2 + x1 * sin2, mask=exists)


def launch(t, freqs, transpose):
    s, b, h, d = t.shape
    if t.stride(-1) != 1:
        t = t.contiguous()
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    block_r = 8
    grid = (s * triton.cdiv(b * h, block_r),)
    with torch.cuda.device_of(t):
        rope_kernel[grid](
            t,
            freqs,
            out,
            *t.stride()[:3],
            b * h,
            h,
            HALF=d // 2,
            BLOCK_R=block_r,
            BLOCK_HALF=triton.next_power_of_2(d // 2),
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
    """Rotate t (s, b, h, d), in half-split pairs, by the angles freqs (at least s, 1, 1, d).

    It computes in fp32 and rounds once, to t's dtype. It is differentiable in t, not in freqs.
    """
    if t.dim() != 4 or t.shape[-1] % 2 or t.dtype not in (torch.bfloat16, torch.half, torch.float):
        came = f"t is {t.dtype} of shape {tuple(t.shape)}"
        raise ValueError(f"{came}; accepted: bf16, fp16 or fp32, (s, b, h, d) with an even d")
    if freqs.shape[0] < t.shape[0] or freqs.shape[1:] != (1, 1, t.shape[-1]):
        raise ValueError(f"freqs has shape {tuple(freqs.shape)}; accepted: (at least s, 1, 1, d)")
    if freqs.requires_grad or freqs.device != t.device:
        raise ValueError("freqs requires a gradient or is on another device than t")
    return Rotate.apply(t, freqs.float().contiguous(), False)


def angles(s, d, base=10_000.0, device=None):
    """RoFormer's angles, position times frequency: (s, 1, 1, d)."""
    frequency = base ** (-torch.arange(0, d, 2, device=device) / d)
    angle = torch.outer(torch.arange(s, device=device), frequency)
    return torch.cat((angle, angle), dim=-1)[:, None, None, :]


def reference(t, freqs):
    x, freqs = t.float(), freqs[: t.shape[0]]
    x1, x2 = x.chunk(2, dim=-1)
    return (x * freqs.cos() + torch.cat((-x2, x1), dim=-1) * freqs.sin()).to(t.dtype)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for b, s, h, d in ((2, 5, 3, 64), (1, 7, 9, 72), (2, 130, 4, 128)):
        t = torch.randn(b, s, h, d, device=device).transpose(0, 1).requires_grad_()
        freqs, grad = angles(s, d, device=device), torch.randn(s, b, h, d, device=device)
        outs = rope(t, freqs), reference(t, freqs)
        grads = [torch.autograd.grad(out, t, grad)[0] for out in outs]
        torch.testing.assert_close(*outs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)
        print(f"(s, b, h, d) = {(s, b, h, d)}: result and gradient are correct")
    if device == "cuda":
        t = torch.randn(2048, 16, 8, 256, device=device, dtype=torch.bfloat16)
        freqs, out = angles(2048, 256, device=device), torch.empty_like(t)
        copy = 1000 * triton.testing.do_bench(lambda: out.copy_(t))
        kernel = 1000 * triton.testing.do_bench(lambda: launch(t, freqs, transpose=False))
        print(f"{tuple(t.shape)} in bf16: {kernel:.1f} us, and a copy takes {copy:.1f} us")


if __name__ == "__main__":
    main()
