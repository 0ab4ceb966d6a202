"""Notebook 10: what the kernels with bugs should compute."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, Case, spec
from .definitions import rope, rope_of_q_and_k


@spec(
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
)
def rope_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, and every tensor contiguous and every head rotated as a whole."""
    return rope.function(t, freqs)


_ONLY_Q = "only q is a slice of wider rows"


@spec(
    leave_out=("part of the head rotated", "every other element"),
    kernel=True,
    launches=1,
    extra=(Case(_ONLY_Q, {"s": 7, "b": 3, "h": 5, "g": 2, "d": 24}, layout=_ONLY_Q),),
)
def rope_of_q_and_k_apart(q: "(s, b, h, d)", k: "(s, b, g, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_q_and_k` of whole heads; in one case q and k have different strides."""
    return rope_of_q_and_k.function(q, k, freqs)
