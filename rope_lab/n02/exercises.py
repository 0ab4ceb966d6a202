"""Notebook 02: what PyTorch does, without words about blocks."""

import torch

from ..judge.definitions import BLOCKS, OTHER_SIZES, rope, rotate_half
from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..judge.spec import spec

_PYTORCH = {"leave_out": BLOCKS, "extra": OTHER_SIZES}


def _halves_of_the_whole_head(t, freqs):
    angles, d2 = freqs[: t.shape[0]], freqs.shape[-1]
    turned = t[..., :d2] * angles.cos() + rotate_half.function(t)[..., :d2] * angles.sin()
    return torch.cat((turned, t[..., d2:]), dim=-1)


def _half_a_turn_of_the_angles(t, freqs):
    angles, d2 = freqs[: t.shape[0]], freqs.shape[-1]
    rotary = t[..., :d2]
    turned = rotary * angles.cos() + rotary * rotate_half.function(angles).sin()
    return torch.cat((turned, t[..., d2:]), dim=-1)


def _one_sum_by_both(t, freqs):
    angles, d2 = freqs[: t.shape[0]], freqs.shape[-1]
    rotary = t[..., :d2]
    turned = (rotary + rotate_half.function(rotary)) * angles.cos() * angles.sin()
    return torch.cat((turned, t[..., d2:]), dim=-1)


rope_in_pytorch = spec(
    rope.function,
    **_PYTORCH,
    mistakes={
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2": (
            _halves_of_the_whole_head
        ),
        "rotate_half gets the angles, where it has to get the elements": (
            _half_a_turn_of_the_angles
        ),
        "one sum is multiplied by both: the cosine is for rotary, the sine for its partners": (
            _one_sum_by_both
        ),
    },
)


THE_WHOLE_FUNCTION = Exercise(
    cell="02-ex1",
    judged_by=rope_in_pytorch,
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
            mistake="halves of the whole head",
            instead={"rotate_half(rotary) *": "rotate_half(t)[..., :d2] *"},
            told="the halves of the whole head: rotate_half gets all d elements of t, not "
            "the first d2",
        ),
        WrongAnswer(
            mistake="half of the equation",
            instead={" + rotate_half(rotary) * angles.sin()": ""},
            told="half of it is missing: the product with the sine",
        ),
        WrongAnswer(
            mistake="no rotate_half",
            instead={"rotate_half(rotary) *": "rotary *"},
            told="the partner is missing: the sine multiplies the element itself",
        ),
        WrongAnswer(
            mistake="rotate_half of the angles",
            instead={"rotate_half(rotary) * angles.sin()": "rotary * rotate_half(angles).sin()"},
            told="rotate_half gets the angles, where it has to get the elements",
        ),
        WrongAnswer(
            mistake="one sum by both",
            instead={
                "rotary * angles.cos() + rotate_half(rotary) * angles.sin()": (
                    "(rotary + rotate_half(rotary)) * angles.cos() * angles.sin()"
                )
            },
            told="one sum is multiplied by both",
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

# how many N eager PyTorch moves where half of the head rotates, beside 6F
PARTIAL_ROTATION = {
    "equation (3) as it is, for all of d": 12,
    "half of everything, but the last cat sees all of t": 6,
    "the last cat is left out": 5,
    "neg works on half of what rotates, a quarter of t": 7.5,
    "the first cat joins only what rotates": 8,
    "a single fused kernel, equation (4)": 2,
}


BYTES_OF_A_PARTIAL_ROTATION = Exercise(
    cell="02-ex5",
    judged_by=PARTIAL_ROTATION,
    wrong_answers=(
        WrongValue(given=12, told="equation (3) as it is"),
        WrongValue(given=6, told="half of everything"),
    ),
)
