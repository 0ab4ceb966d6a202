"""Notebook 01: the math, in PyTorch."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import BLOCKS, OTHER_SIZES
from ..judge.exercise import Exercise, WrongAnswer
from ..judge.spec import STRIDED, spec


def _pairs(x):
    """As complex numbers."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _elements(pairs):
    return torch.view_as_real(pairs).flatten(-2)


def _without_the_i(x, angle):
    return _elements(_pairs(x) * angle.exp())


def _of_the_conjugate(x, angle):
    return _elements(_pairs(x).conj() * torch.exp(1j * angle))


def _a_sum(x, angle):
    return _elements(_pairs(x) + torch.exp(1j * angle))


def _as_long_as_its_angle(x, angle):
    return _elements(_pairs(x) * torch.polar(angle, angle))


def _halves_in_neighbors_out(x, angle):
    halves = torch.complex(*x.chunk(2, dim=-1))
    return _elements(halves * torch.exp(1j * angle))


def _real_part_twice(x, angle):
    return turned_pairs.function(x, angle)[..., ::2].repeat_interleave(2, -1)


def _real_parts_first(x, angle):
    turned = turned_pairs.function(x, angle)
    return torch.cat((turned[..., ::2], turned[..., 1::2]), dim=-1)


@spec(
    leave_out=(*BLOCKS, *STRIDED, "half precision"),
    extra=OTHER_SIZES,
    mistakes={
        "the i is missing: exp of a real number stretches, and turns nothing": _without_the_i,
        "the pair is conjugated: its second element has the opposite sign": _of_the_conjugate,
        "a sum, where the pair has to be multiplied": _a_sum,
        "the angle is the length, too: torch.polar takes a length, 1, and an angle": (
            _as_long_as_its_angle
        ),
        "halves are paired, where neighbors are asked for, and come out as neighbors": (
            _halves_in_neighbors_out
        ),
        "the real part twice: where is the imaginary one?": _real_part_twice,
        "all real parts and then all imaginary ones: the two of a pair are neighbors": (
            _real_parts_first
        ),
    },
)
def turned_pairs(x: "(s, d)", angle: "angles (s, p)"):
    """Each row's neighbors turned by that row's angles, one for each pair."""
    x, y = x[..., ::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((x * cos - y * sin, x * sin + y * cos), dim=-1).flatten(-2)


TURN_PAIRS = Exercise(
    cell="01-ex1",
    judged_by=turned_pairs,
    wrong_answers=(
        WrongAnswer(
            mistake="halves",
            instead={
                "x.unflatten(-1, (-1, 2))": "x.unflatten(-1, (2, -1)).mT.contiguous()",
                "view_as_real(turned)": "view_as_real(turned).mT",
            },
            told="the wrong pairing: it pairs halves (i, i + d2/2), where neighbors",
        ),
        WrongAnswer(
            mistake="halves that come out as neighbors",
            instead={"x.unflatten(-1, (-1, 2))": "x.unflatten(-1, (2, -1)).mT.contiguous()"},
            told="halves are paired, where neighbors are asked for",
        ),
        WrongAnswer(
            mistake="the imaginary part first",
            instead={"(turned)": "(turned).flip(-1)"},
            told="neighbors swapped: each of the two",
        ),
        WrongAnswer(
            mistake="only the real part",
            instead={"(turned)": "(turned.real + 0j)"},
            told="zero: what is wrong is zero, in the second of each two neighbors",
        ),
        WrongAnswer(
            mistake="a minus for all",
            instead={"(turned)": "(-turned)"},
            told="every element has the opposite sign",
        ),
        WrongAnswer(
            mistake="no i",
            instead={"torch.exp(1j * angle)": "angle.exp()"},
            told="the i is missing",
        ),
        WrongAnswer(
            mistake="conjugated",
            instead={"= pairs *": "= pairs.conj() *"},
            told="the pair is conjugated: its",
        ),
        WrongAnswer(
            mistake="a sum",
            instead={"= pairs *": "= pairs +"},
            told="a sum, where the pair has to be multiplied",
        ),
        WrongAnswer(
            mistake="an angle for a length",
            instead={"torch.exp(1j * angle)": "torch.polar(angle, angle)"},
            told="the angle is the length, too",
        ),
        WrongAnswer(
            mistake="the real part twice",
            instead={"(turned)": "(turned.real * (1 + 1j))"},
            told="the real part twice",
        ),
        WrongAnswer(
            mistake="real parts first",
            instead={
                "torch.view_as_real(turned).flatten(-2)": (
                    "torch.cat((turned.real, turned.imag), -1)"
                )
            },
            told="all real parts and then all imaginary ones",
        ),
        WrongAnswer(
            mistake="sine and cosine exchanged",
            instead={"torch.exp(1j * angle)": "torch.complex(angle.sin(), angle.cos())"},
            told="the wrong function: sine and cosine have changed places",
        ),
        WrongAnswer(
            mistake="degrees",
            instead={"1j * angle": "1j * angle.deg2rad()"},
            told="the wrong angle: it takes radians for degrees",
        ),
        WrongAnswer(
            mistake="one angle a row",
            instead={"1j * angle": "1j * angle[:, :1]"},
            told="the wrong angle: every pair is turned by the first pair's",
        ),
        WrongAnswer(
            mistake="a cosine for both",
            instead={"torch.exp(1j * angle)": "angle.cos()"},
            told="half of it is missing: the product with the sine",
        ),
    ),
)
