"""Notebook 02: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n02 import exercises

THE_WHOLE_FUNCTION = Exercise(
    cell="02-ex1",
    judged_by=exercises.rope_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            "shape (5, 2, 3, 12), expected (5, 2, 3, 20)",
            {"torch.cat([rotated.to(t.dtype), tail], dim=-1)": "rotated.to(t.dtype)"},
        ),
        WrongAnswer(
            "the tail is wrong: it is zero", {", tail]": ", tail * 0]"}, kind="not loaded", line=""
        ),
        WrongAnswer(
            "rounding: compute in fp32",
            {
                "angles.cos()": "angles.cos().to(t.dtype)",
                "angles.sin()": "angles.sin().to(t.dtype)",
            },
            kind="rounding",
            line="",
        ),
        WrongAnswer(
            "the partner is missing: the sine multiplies the element itself",
            {"rotate_half(rotary) *": "rotary *"},
            kind="not loaded",
            line="",
        ),
        WrongAnswer(
            "too few digits: the angles are rounded to half precision before sin and cos",
            {"angles = freqs[:s]": "angles = freqs[:s].to(t.dtype)"},
            kind="too narrow",
            line="",
        ),
        WrongAnswer(
            "the wrong order: the tail comes first",
            {"[rotated.to(t.dtype), tail]": "[tail, rotated.to(t.dtype)]"},
            kind="wrong element",
            line="",
        ),
        WrongAnswer(
            "the wrong part: the last d2 elements are rotated instead of the first",
            {"t[..., :d2], t[..., d2:]": "t[..., -d2:], t[..., :-d2]"},
            kind="wrong element",
            line="",
        ),
        WrongAnswer(
            "an input is overwritten: t",
            {"rotated = rotary * angles.cos()": "rotated = rotary.mul_(angles.cos())"},
            kind="wrong element",
            line="",
        ),
    ),
)


BYTES_OF_A_PARTIAL_ROTATION = Exercise(cell="02-ex5")
