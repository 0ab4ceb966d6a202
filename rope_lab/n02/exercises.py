"""Notebook 02: RoPE in PyTorch, without words about blocks."""

from ..judge.definitions import BLOCKS, OTHER_SIZES, rope
from ..judge.mistakes import Mistake, Solution
from ..judge.spec import spec

_PYTORCH = {"leave_out": BLOCKS, "extra": OTHER_SIZES}


ROPE = Solution("02-ex1")

rope_in_pytorch = spec(
    rope.function,
    **_PYTORCH,
    mistakes=ROPE.with_mistakes(
        Mistake(
            "the halves of the whole head: rotate_half gets all d elements of t, not the first d2",
            {"rotate_half(rotary)": "rotate_half(t)[..., :d2]"},
        ),
        Mistake(
            "rotate_half is applied to the angles: apply it to the elements",
            {"rotate_half(rotary) * angles.sin()": "rotary * rotate_half(angles).sin()"},
        ),
        Mistake(
            "one sum is multiplied by both: the cosine is for rotary, the sine for its partners",
            rotated="(rotary + rotate_half(rotary)) * angles.cos() * angles.sin()",
        ),
    ),
)


# how many N eager PyTorch moves if half of the head rotates, in addition to 6F
PARTIAL_ROTATION = {
    "equation (3) as it is, for all of d": 12,
    "half of everything, but the last cat sees all of t": 6,
    "the last cat is left out": 5,
    "neg works on half of what rotates, a quarter of t": 7.5,
    "the first cat joins only what rotates": 8,
    "a single fused kernel, equation (4)": 2,
}
