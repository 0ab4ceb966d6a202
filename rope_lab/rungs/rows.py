"""A rung's kernel with another tile, launched or compiled."""

from types import ModuleType

import torch
import triton
from torch import Tensor

from ..compiler.compile import Compiled, compile_for
from . import SHAPE


def launch(
    kernel, t: Tensor, freqs: Tensor, out: Tensor | None = None, block_r: int = 1, **options
) -> Tensor:
    """Rotate t by a kernel that takes what those of rungs 2 to 7 take.

    Args:
        kernel: a rung's, or one like it.
        t: contiguous, (s, b, h, d).
        freqs: the table of angles, (s2, 1, 1, d).
        out: where the result goes; a new tensor by default.
        block_r: rows a program, a power of two; 1 for a kernel without `BLOCK_R`.
        options: `num_warps`, and constants that other kernels lack.
    """
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    grid = (s * triton.cdiv(b * h, block_r),)
    kernel[grid](t, freqs, out, b * h, **_constants(kernel, d, block_r), **options)
    return out


def compiled(rung: ModuleType, block_r: int = 8, gpu: str = "sm_90") -> Compiled:
    """The kernel of a rung at the headline shape in bf16, with one warp, compiled for a GPU.

    Args:
        rung: a module with a `my_rope_kernel` that has these constants: rungs 4 to 7.
        block_r: rows a program.
        gpu: its compute capability; it need not be here.
    """
    _, b, h, d = SHAPE
    t, angles = torch.empty(16, dtype=torch.bfloat16), torch.empty(16)
    kernel = rung.my_rope_kernel
    constants = _constants(kernel, d, block_r)
    return compile_for(gpu, kernel, t, angles, t, b * h, **constants, num_warps=1)


def _constants(kernel, d: int, block_r: int) -> dict[str, int | bool]:
    """Those that the kernel has; it goes forward."""
    half = d // 2
    sizes = {"HALF": half, "BLOCK_R": block_r, "BLOCK_HALF": triton.next_power_of_2(half)}
    known = sizes | {"TRANSPOSE": False}
    return {name: value for name, value in known.items() if name in kernel.arg_names}
