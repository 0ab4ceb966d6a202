"""Notebook 10: what the kernels with bugs should compute."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec
from .definitions import rope


@spec(
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
)
def rope_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, and every tensor contiguous and every head rotated as a whole."""
    return rope.function(t, freqs)
