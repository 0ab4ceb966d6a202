"""Notebook 04: the first RoPE kernels."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import spec
from .definitions import rotate_half, rotated


# A kernel with one lane for each element loads each twice: for itself, and as a partner.
@spec(kernel=True, loads=2)
def rope_at_positions(
    t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (b, s)"
):
    """`rope`, with a position of its own for every token."""
    return rotated(t, freqs[position_ids.t(), 0], rotate_half.function)
