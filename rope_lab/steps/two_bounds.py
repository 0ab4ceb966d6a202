"""Why the row kernel is slow: its arithmetic, or the start of its programs? Notebook 05 asks.

Rung 2, its sines before its first store, with a flag that leaves out sin and cos, and with any
number of warps. Importing this loads Triton.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..rungs import rung_1_naive, rung_3_tile
from ..rungs.measured import headline
from ..rungs.rows import launch


@triton.jit
def part_of_row_kernel(
    t_ptr,  # input (s, b, h, d), contiguous
    freqs_ptr,  # angles (s2, 1, 1, d), contiguous
    out_ptr,  # output like t; may be t itself
    rows,  # b * h, rows of one position
    HALF: tl.constexpr,  # d / 2
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    TRIG: tl.constexpr,  # compute cosine and sine? else use the angle itself for both
):
    row = tl.program_id(0)
    position = row // rows
    pair = tl.arange(0, BLOCK_HALF)
    exists = pair < HALF
    offset = row * 2 * HALF + pair
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    angle_ptr = freqs_ptr + position * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=exists)
    angle2 = tl.load(angle_ptr + HALF, mask=exists)
    cos1, sin1, cos2, sin2 = angle1, angle1, angle2, angle2
    if TRIG:
        cos1, sin1 = tl.cos(angle1), tl.sin(angle1)
        cos2, sin2 = tl.cos(angle2), tl.sin(angle2)
    tl.store(out_ptr + offset, x1 * cos1 - x2 * sin1, mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * cos2 + x1 * sin2, mask=exists)


def part_of_row(t: Tensor, freqs: Tensor, trig: bool = True, num_warps: int = 4) -> Tensor:
    """Rung 2's result; without `trig` no rotation, but a time that tells what sin and cos cost."""
    return launch(part_of_row_kernel, t, freqs, TRIG=trig, num_warps=num_warps)


def make_cases() -> dict[str, Callable[[], Tensor]]:
    """Those of the record "05/two-bounds", at the headline shape."""
    t, freqs = headline()
    out = torch.empty_like(t)
    rotate = partial(part_of_row, t, freqs)
    return {
        "copy": lambda: out.copy_(t),
        "naive": lambda: rung_1_naive.my_rope(t, freqs),
        "row": lambda: rotate(),
        "row, no sin and cos": lambda: rotate(trig=False),
        "row, 1 warp": lambda: rotate(num_warps=1),
        "row, 1 warp, no sin and cos": lambda: rotate(trig=False, num_warps=1),
        "tile": lambda: rung_3_tile.my_rope(t, freqs),
    }
