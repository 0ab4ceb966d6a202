"""Rung 8, notebook 09: 1024 elements a program, which leaves room for more programs."""

import torch
import triton

from .rung_7_loads_first import my_rope_kernel


def my_rope(t, freqs, out=None, transpose=False):
    s, b, h, d = t.shape
    block_r, num_warps = max(1, 1024 // triton.next_power_of_2(d)), 1
    if out is None:
        out = torch.empty_like(t)
    my_rope_kernel[(s * triton.cdiv(b * h, block_r),)](
        *(t, freqs, out, b * h),
        HALF=d // 2,
        BLOCK_R=block_r,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        TRANSPOSE=transpose,
        num_warps=num_warps,
    )
    return out
