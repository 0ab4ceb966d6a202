"""Notebook 10: what the kernels with bugs should compute."""

from ..judge.definitions import rope, rope_of_q_and_k
from ..judge.spec import STRIDED, Case, spec

# every tensor contiguous, and every head rotated as a whole
rope_of_whole_heads = spec(
    rope.function,
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
    launches=1,
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


# The two numbers, in the case where q is a slice of rows with 29 elements, and k is contiguous.
_TOKEN, _HEAD = 20, 6 - 5  # of program (20, 6): the grid counts q's 5 heads first
_POSITION, _SEQUENCE = divmod(_TOKEN, 3)  # of 3 sequences
_Q_APART, _K_APART = 24 + 5, 24  # heads of each, in elements
_BEGIN = _POSITION * 3 * 2 * 24 + _SEQUENCE * 2 * 24  # of k's 2 heads of that token
WALKED = [_BEGIN + _HEAD * _K_APART, _BEGIN + _HEAD * _Q_APART]
MISSTEPS = {
    "bytes, where elements are wanted": {1: 3936, 2: 3956},
    "that is where its token begins, with head 0, and this is head 1": {1: 960, 2: 960},
    "6 counts q's 5 heads first; it is head 1 of k": {1: 1104, 2: 1134},
    "the wrong stride replaces the right one, and isn't added to it": {2: 1013},
    "this uses k's own stride, not the stride in the line with the bug": {1: 989},
    "1008 is the first element after the end, not the first of a head": {1: 1008, 2: 1008},
    "it should begin there: insert the numbers into the line exactly as it is written": {2: 984},
}
