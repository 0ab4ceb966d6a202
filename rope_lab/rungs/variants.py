"""Kernels that later notebooks look back at.

Importing this loads Triton.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from rope_kernels import reference, rope_fw

from . import rung_1_naive, rung_2_row
from .changed import changed
from .measured import beside_a_copy
from .rows import launch

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


# rung 1 for a last dimension that is contiguous: it reads everything twice
naive_rope_kernel = changed(
    rung_1_naive.my_rope_kernel,
    "naive_rope_kernel",
    ("    stride_d,\n", ""),
    ("column * stride_d", "column"),
    ("partner * stride_d", "partner"),
)


def naive_rope(t: Tensor, freqs: Tensor, block: int = 1024) -> Tensor:
    _, b, h, d = t.shape
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    naive_rope_kernel[(triton.cdiv(t.numel(), block),)](
        t, freqs, out, t.numel(), b, h, *t.stride()[:3], D=d, D2=freqs.shape[-1], BLOCK=block
    )
    return out


def headline_cases(dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """Notebook 08: calls on the main example in this dtype; "ours" is the package's kernel."""
    rotations = {"eager": reference.apply_rotary_pos_emb, "naive": naive_rope, "ours": rope_fw}
    return beside_a_copy(rotations, dtype=dtype)


# Notebook 10: rung 2, and without the mask of its first store


def half_split_row(t: Tensor, freqs: Tensor, out: Tensor | None = None) -> Tensor:
    return rung_2_row.my_rope(t, freqs, out)


_FIRST_STORE = "tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1)"
unmasked_row_kernel = changed(
    rung_2_row.my_rope_kernel,
    "unmasked_row_kernel",
    (f"{_FIRST_STORE}, mask=exists)", f"{_FIRST_STORE})"),
)


def unmasked_row(t: Tensor, freqs: Tensor, num_warps: int = 4) -> Tensor:
    return launch(unmasked_row_kernel, t, freqs, num_warps=num_warps)
