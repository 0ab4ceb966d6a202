"""Notebook 08: calls at the headline shape, and a RoPE kernel with knobs.

Five settings of the knobs run into five limits. A setting's fingerprint is what becomes of its time
if one thing about it changes. Importing this loads Triton.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, reference, rope_fw

from ..rungs.measured import beside_a_copy
from ..rungs.naive_rope import naive_rope
from .rows_of_calls import fingerprint


def headline_cases(dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """Calls on the main example in this dtype; "ours" is the package's kernel."""
    rotations = {"eager": reference.apply_rotary_pos_emb, "naive": naive_rope, "ours": rope_fw}
    return beside_a_copy(rotations, dtype=dtype)


def two_calls() -> dict[str, Callable[[], Tensor]]:
    """Two calls of the package's kernel, whose times a reader predicts."""
    keys = torch.randn(131072, 2, 1, 128, device="cuda", dtype=torch.bfloat16)
    short = torch.randn(128, 4, 8, 128, device="cuda", dtype=torch.float16)
    rope = RotaryPositionEmbedding(128).cuda()
    return {
        "few heads": partial(rope_fw, keys, rope(131072)),
        "short": partial(rope_fw, short, rope(128)),
    }


@triton.jit
def knobs_kernel(
    t_ptr,  # input (s, b, h, d), contiguous
    freqs_ptr,  # angles (s, 1, 1, d) with matching halves, contiguous
    out_ptr,  # output like t
    tiles,  # of all positions
    row_blocks,  # tiles of one position
    HALF: tl.constexpr,  # d / 2, a power of two
    BLOCK_R: tl.constexpr,  # rows of a tile; divides those of a position
    REPEATS: tl.constexpr,  # rotate this often, by angle / REPEATS: the result is the same
):
    pair = tl.arange(0, HALF)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = tile * BLOCK_R + tl.arange(0, BLOCK_R)
        offset = row[:, None] * (2 * HALF) + pair[None, :]
        x1 = tl.load(t_ptr + offset).to(tl.float32)
        x2 = tl.load(t_ptr + offset + HALF).to(tl.float32)
        angle = tl.load(freqs_ptr + tile // row_blocks * 2 * HALF + pair) / REPEATS
        cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
        for _ in tl.static_range(REPEATS):
            x1, x2 = x1 * cos - x2 * sin, x2 * cos + x1 * sin
        tl.store(out_ptr + offset, x1)
        tl.store(out_ptr + offset + HALF, x2)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a launch of `knobs_kernel` does, and on what."""

    shape: tuple[int, int, int, int] = (2048, 16, 8, 256)  # (s, b, h, d)
    dtype: torch.dtype = torch.bfloat16
    rows: int = 8  # of a tile
    num_warps: int = 1
    repeats: int = 1
    programs: int | None = None  # by default one for each tile

    def call(self, device: str = "cuda") -> Callable[[], Tensor]:
        """The launch, on its own tensors."""
        s, b, h, d = self.shape
        t = torch.randn(self.shape, device=device).to(self.dtype)
        freqs, out = RotaryPositionEmbedding(d).to(device)(s), torch.empty_like(t)
        row_blocks = b * h // self.rows
        grid = (self.programs or s * row_blocks,)

        def run() -> Tensor:
            knobs_kernel[grid](
                t,
                freqs,
                out,
                s * row_blocks,
                row_blocks,
                HALF=d // 2,
                BLOCK_R=self.rows,
                REPEATS=self.repeats,
                num_warps=self.num_warps,
            )
            return out

        return run

    def fingerprint(self) -> dict[str, float]:
        """Microseconds a call, and how many times as long it takes after each change."""
        s, b, h, _ = self.shape
        programs = self.programs or s * b * h // self.rows
        changed = {
            "as it is": self,
            "half the programs": replace(self, programs=programs // 2),
            "twice the arithmetic": replace(self, repeats=2 * self.repeats),
            "fp32, not bf16": replace(self, dtype=torch.float32),
        }
        eighth = replace(self, shape=(s // 8, *self.shape[1:]))
        eighths = [eighth.call() for _ in range(8)]
        return fingerprint({name: one.call() for name, one in changed.items()}, eighths)


SETTINGS = {  # the limit that each runs into
    "host": Setting(shape=(64, 1, 16, 64)),
    "starts": Setting(rows=1),
    "bytes": Setting(),
    "instructions": Setting(num_warps=4, repeats=32),
    "latency": Setting(rows=4, num_warps=4, programs=264),
}


def fingerprints() -> dict[str, dict[str, float]]:
    """The fingerprint of each setting, on this machine's GPU."""
    return {name: setting.fingerprint() for name, setting in SETTINGS.items()}
