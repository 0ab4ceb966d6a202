"""Notebook 09's choice of rows: rung 7's kernel, with as many rows a program as one asks for."""

from collections.abc import Callable
from functools import partial
from types import ModuleType

import torch
import triton
from torch import Tensor

from ..compiler.compile import Compiled, compile_for
from . import SHAPE
from .measured import headline
from .rung_7_loads_first import my_rope_kernel

ROWS = 2, 4, 8, 16, 32


def rope_with_rows(t: Tensor, freqs: Tensor, block_r: int, out: Tensor | None = None) -> Tensor:
    """Rotate t by rung 7's kernel, with one warp and `block_r` rows a program.

    Args:
        t: contiguous, (s, b, h, d).
        freqs: the table of angles, (s2, 1, 1, d).
        block_r: a power of two.
        out: where the result goes; a new tensor by default.
    """
    s, b, h, _ = t.shape
    out = torch.empty_like(t) if out is None else out
    grid = (s * triton.cdiv(b * h, block_r),)
    my_rope_kernel[grid](t, freqs, out, b * h, **_constants(t.shape[-1], block_r))
    return out


def compiled(rung: ModuleType, block_r: int = 8, gpu: str = "sm_90") -> Compiled:
    """The kernel of a rung at the headline shape in bf16, with one warp, compiled for a GPU.

    Args:
        rung: a module with a `my_rope_kernel` that has these constants: rungs 4 to 8.
        block_r: rows a program.
        gpu: its compute capability; it need not be here.
    """
    _, b, h, d = SHAPE
    t, angles = torch.empty(16, dtype=torch.bfloat16), torch.empty(16)
    constants = _constants(d, block_r)
    return compile_for(gpu, rung.my_rope_kernel, t, angles, t, b * h, **constants)


def make_cases(device: str = "cuda") -> dict[str, Callable[[], object]]:
    """What `lab.bench("09/rows", ...)` measures: a copy, and each number of rows."""
    t, table = headline(device)
    out = torch.empty_like(t)
    cases = {"copy": partial(out.copy_, t)}
    return cases | {f"{r} rows": partial(rope_with_rows, t, table, r, out) for r in ROWS}


def _constants(d: int, block_r: int) -> dict[str, int | bool]:
    half = d // 2
    sizes = {"HALF": half, "BLOCK_R": block_r, "BLOCK_HALF": triton.next_power_of_2(half)}
    return sizes | {"TRANSPOSE": False, "num_warps": 1}
