"""Notebook 07: a kernel with wide loads."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec
from .definitions import rope_of_neighbors


@spec(angles="pairs", leave_out=(*STRIDED, "part of the head rotated"), kernel=True)
def rope_of_neighbors_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_neighbors`, and every tensor contiguous and every head rotated as a whole."""
    return rope_of_neighbors.function(t, freqs)
