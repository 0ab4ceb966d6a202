"""A solution of notebook 02, for mistakes that are made in it."""

import torch

from ..judge.definitions import rotate_half


def rope(t, freqs):
    """The first d2 elements rotated (equation 2), the rest as it came; rounded once."""
    s, d2 = t.shape[0], freqs.shape[-1]
    angles = freqs[:s]
    rotary, tail = t[..., :d2], t[..., d2:]
    rotated = rotary * angles.cos() + rotate_half(rotary) * angles.sin()  # equation (2)
    return torch.cat([rotated.to(t.dtype), tail], dim=-1)
