"""A rung's kernel with another tile, launched."""

import torch
import triton
from torch import Tensor


def launch(
    kernel, t: Tensor, freqs: Tensor, out: Tensor | None = None, block_r: int = 1, **options
) -> Tensor:
    """Rotate t by a kernel that takes what those of rungs 2 to 6 take.

    Args:
        kernel: a rung's, or one like it.
        t: contiguous, (s, b, h, d).
        freqs: the table of angles, (at least s, 1, 1, d).
        out: where the result goes; a new tensor by default.
        block_r: rows a program, a power of two; 1 for a kernel without `BLOCK_R`.
        options: `num_warps`, and constants that other kernels lack.
    """
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    half = d // 2
    sizes = {"HALF": half, "BLOCK_R": block_r, "BLOCK_HALF": triton.next_power_of_2(half)}
    known = sizes | {"TRANSPOSE": False}
    constants = {name: value for name, value in known.items() if name in kernel.arg_names}
    kernel[(s * triton.cdiv(b * h, block_r),)](t, freqs, out, b * h, **constants, **options)
    return out
