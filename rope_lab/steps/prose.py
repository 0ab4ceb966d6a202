"""The text that notebook 12's model reads: this repository's own prose, as it was in November 2026.

`rope_lab/data/prose.txt` is frozen, because the records of notebook 12 depend on it.
"""

from pathlib import Path

import torch
from torch import Tensor

PATH = Path(__file__).resolve().parents[1] / "data" / "prose.txt"
HELD_OUT = 10  # per cent, the end of the file


def prose(part: str = "train") -> Tensor:
    """Bytes, int64 (n,), of the part to 'train' on or of the part 'held out'.

    Raises:
        ValueError: another part.
    """
    if part not in ("train", "held out"):
        raise ValueError(f"part is {part!r}; accepted: 'train', 'held out'")
    text = torch.frombuffer(bytearray(PATH.read_bytes()), dtype=torch.uint8).long()
    end = len(text) - len(text) * HELD_OUT // 100
    return text[:end] if part == "train" else text[end:]


def batch(text: Tensor, size: int, length: int, seed: int) -> Tensor:
    """Windows (size, length) of some prose, at places that the seed decides."""
    generator = torch.Generator().manual_seed(seed)
    begins = torch.randint(len(text) - length + 1, (size, 1), generator=generator)
    return text[begins + torch.arange(length)]
