"""Notebook 02: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer, WrongValue
from rope_lab.n02 import exercises

THE_WHOLE_FUNCTION = Exercise(
    cell="02-ex1",
    judged_by=exercises.rope_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="no tail",
            instead={"torch.cat([rotated.to(t.dtype), tail], dim=-1)": "rotated.to(t.dtype)"},
            told="shape (5, 2, 3, 12), expected (5, 2, 3, 20)",
        ),
        WrongAnswer(
            mistake="zeros for a tail",
            instead={", tail]": ", tail * 0]"},
            told="the tail is wrong: it is zero",
        ),
        WrongAnswer(
            mistake="rounded before",
            instead={
                "angles.cos()": "angles.cos().to(t.dtype)",
                "angles.sin()": "angles.sin().to(t.dtype)",
            },
            told="rounding: compute in fp32",
        ),
        WrongAnswer(
            mistake="no rotate_half",
            instead={"rotate_half(rotary) *": "rotary *"},
            told="the partner is missing: the sine multiplies the element itself",
        ),
        WrongAnswer(
            mistake="angles in the tensor's dtype",
            instead={"angles = freqs[:s]": "angles = freqs[:s].to(t.dtype)"},
            told="too few digits: the angles are rounded to half precision before sin and cos",
        ),
        WrongAnswer(
            mistake="the tail first",
            instead={"[rotated.to(t.dtype), tail]": "[tail, rotated.to(t.dtype)]"},
            told="the wrong order: the tail comes first",
        ),
        WrongAnswer(
            mistake="the last elements rotated",
            instead={"t[..., :d2], t[..., d2:]": "t[..., -d2:], t[..., :-d2]"},
            told="the wrong part: the last d2 elements are turned, where the first are asked for",
        ),
        WrongAnswer(
            mistake="in place",
            instead={"rotated = rotary * angles.cos()": "rotated = rotary.mul_(angles.cos())"},
            told="an input is overwritten: t",
        ),
    ),
)


BYTES_OF_A_PARTIAL_ROTATION = Exercise(
    cell="02-ex5",
    judged_by=exercises.PARTIAL_ROTATION,
    wrong_answers=(
        WrongValue(given=12, told="equation (3) as it is"),
        WrongValue(given=6, told="half of everything"),
    ),
)
