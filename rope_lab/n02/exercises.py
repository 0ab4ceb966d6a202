"""Notebook 02: RoPE in PyTorch, without words about blocks."""

from ..judge.definitions import BLOCKS, OTHER_SIZES, rope
from ..judge.spec import spec

rope_in_pytorch = spec(rope.function, leave_out=BLOCKS, extra=OTHER_SIZES)


# how many N eager PyTorch moves if half of the head rotates, in addition to 6F
PARTIAL_ROTATION = {
    "equation (3) as it is, for all of d": 12,
    "half of everything, but the last cat sees all of t": 6,
    "the last cat is left out": 5,
    "neg works on half of what rotates, a quarter of t": 7.5,
    "the first cat joins only what rotates": 8,
    "a single fused kernel, equation (4)": 2,
}
