"""Does a kernel compute offsets in 64 bits? Rotate what is 2^30 elements apart, three of each."""

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

_STEP = 2**30  # elements from one to the next: the third one is beyond 32 bits
_FAR = "position", "sequence", "head"


def wrong_far_apart(rope: Callable) -> str | None:
    """What comes out wrong if it is far apart, of `_FAR`; '' if nothing does.

    None if there is no memory to try it. It takes the middle of 8 GiB, so that an offset that wraps
    around stays inside.

    Args:
        rope: takes t (s, b, h, d) of any strides, and freqs (at least s, 1, 1, d).
    """
    try:
        memory = _untouched(4 * _STEP + 128)
    except (OSError, RuntimeError):
        return None
    generator = torch.Generator().manual_seed(10)
    small = torch.randn(3, 3, 3, 8, generator=generator).to(device, torch.float16)
    freqs = RotaryPositionEmbedding(8)(3).to(device)
    expected = apply_rotary_pos_emb(small, freqs, round_once=True)
    for dimension, name in enumerate(_FAR):
        strides = [8, 8, 8, 1]
        strides[dimension] = _STEP
        strides[(dimension + 1) % len(_FAR)] = 24
        t = memory[2 * _STEP :].as_strided(small.shape, strides).copy_(small)
        with a_guest(device):
            if not compare(rope(t, freqs), expected):
                return name
    return ""


def _untouched(elements: int) -> Tensor:
    """Memory in fp16; on the CPU only the pages that are used exist.

    Linux may refuse this much memory, unless a flag says that most of it stays unused.
    """
    if device != "cpu" or sys.platform != "linux":
        return torch.empty(elements, dtype=torch.float16, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return torch.frombuffer(mmap.mmap(-1, 2 * elements, flags=flags), dtype=torch.float16)
