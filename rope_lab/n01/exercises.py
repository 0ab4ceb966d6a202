"""Notebook 01: the math, in PyTorch."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import BLOCKS, OTHER_SIZES
from ..judge.spec import STRIDED, spec


@spec(leave_out=(*BLOCKS, *STRIDED, "half precision"), extra=OTHER_SIZES)
def turned_pairs(x: "(s, d)", angle: "angles (s, p)"):
    """Each row's neighbors turned by that row's angles, one for each pair."""
    x, y = x[..., ::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((x * cos - y * sin, x * sin + y * cos), dim=-1).flatten(-2)
