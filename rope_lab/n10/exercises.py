"""Notebook 10: what the kernels with bugs should compute."""

from ..judge.definitions import rope, rope_of_q_and_k
from ..judge.spec import STRIDED, Case, spec

# every tensor contiguous, and every head rotated as a whole
rope_of_whole_heads = spec(
    rope.function,
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
)

# of whole heads; in one case q and k have different strides
_ONLY_Q = "only q is a slice of wider rows"
rope_of_q_and_k_apart = spec(
    rope_of_q_and_k.function,
    leave_out=("part of the head rotated", "every other element"),
    kernel=True,
    launches=1,
    extra=(Case(_ONLY_Q, {"s": 7, "b": 3, "h": 5, "g": 2, "d": 24}, layout=_ONLY_Q),),
)
