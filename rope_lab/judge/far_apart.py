"""Does a kernel compute offsets in 64 bits? Rotate three positions that are 2^30 elements apart."""

import mmap
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from rope_kernels.embedding import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb

from ..engine import device
from .check import compare
from .guests import a_guest
from .verdict import Verdict

_STEP = 2**30  # elements between two positions: the third one is beyond 32 bits


def rotates_far_positions(rope: Callable) -> Verdict | None:
    """The comparison with plain PyTorch; None if there is no memory to try it.

    The positions are in the middle of 8 GiB, so that an offset that wraps around stays inside.

    Args:
        rope: takes t (s, b, h, d) of any strides, and freqs (at least s, 1, 1, d).
    """
    try:
        memory = _untouched(4 * _STEP + 64)
    except (OSError, RuntimeError):
        return None
    generator = torch.Generator().manual_seed(10)
    small = torch.randn(3, 1, 2, 8, generator=generator).to(device, torch.float16)
    freqs = RotaryPositionEmbedding(8)(3).to(device)
    t = memory[2 * _STEP :].as_strided((3, 1, 2, 8), (_STEP, 16, 8, 1)).copy_(small)
    expected = apply_rotary_pos_emb(small, freqs, round_once=True)
    with a_guest(device):
        return compare(rope(t, freqs), expected)


def _untouched(elements: int) -> Tensor:
    """Memory in fp16; on the CPU only the pages that are used exist.

    Linux may refuse this much memory, unless a flag says that most of it stays unused.
    """
    if device != "cpu" or sys.platform != "linux":
        return torch.empty(elements, dtype=torch.float16, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return torch.frombuffer(mmap.mmap(-1, 2 * elements, flags=flags), dtype=torch.float16)
