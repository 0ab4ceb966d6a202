"""Does a kernel compute offsets in 64 bits? Rotate what is 2^30 elements apart."""

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
_FAR = "position", "sequence", "head", "column"


def wrong_far_apart(rope: Callable) -> str | None:
    """What comes out wrong if it is far apart, of `_FAR`; '' if nothing does.

    None if there is no memory to try it. It takes part of 10 GiB, so that an offset that wraps
    around stays inside.

    Args:
        rope: takes t (s, b, h, d) of any strides, and freqs (at least s, 1, 1, at most d).
    """
    try:
        memory = _untouched(5 * _STEP + 128)
    except (OSError, RuntimeError):
        return None
    generator = torch.Generator().manual_seed(10)
    small = torch.randn(3, 3, 3, 4, generator=generator).to(device, torch.float16)
    table = RotaryPositionEmbedding(4)(3).to(device)
    tables = table, table[..., :2].contiguous()  # with the second one, columns 2 and 3 are a tail
    for dimension, name in enumerate(_FAR):
        near = torch.empty_like(small).select(dimension, 0).contiguous().stride()
        strides = (*near[:dimension], _STEP, *near[dimension:])
        t = memory[2 * _STEP :].as_strided(small.shape, strides).copy_(small)
        for freqs in tables:
            with a_guest(device):
                found = rope(t, freqs)
            if not compare(found, apply_rotary_pos_emb(small, freqs, round_once=True)):
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
