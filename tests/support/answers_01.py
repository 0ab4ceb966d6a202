"""Notebook 01: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n01 import exercises

TURN_PAIRS = Exercise(
    cell="01-ex1",
    judged_by=exercises.turned_pairs,
    wrong_answers=(
        WrongAnswer(
            "the wrong pairing: it pairs halves (i, i + d2/2), expected neighbors",
            {
                "x.unflatten(-1, (-1, 2))": "x.unflatten(-1, (2, -1)).mT.contiguous()",
                "view_as_real(turned)": "view_as_real(turned).mT",
            },
            kind="wrong element",
            line="",
        ),
        WrongAnswer(
            "neighbors swapped: each of the two",
            {"(turned)": "(turned).flip(-1)"},
            kind="factor",
            line="",
        ),
        WrongAnswer(
            "zero: what is wrong is zero, in the second of each two neighbors",
            {"(turned)": "(turned.real + 0j)"},
            kind="not loaded",
            line="",
        ),
        WrongAnswer(
            "every element has the opposite sign", {"(turned)": "(-turned)"}, kind="factor", line=""
        ),
        WrongAnswer(
            "the wrong function: sine and cosine have changed places",
            {"torch.exp(1j * angle)": "torch.complex(angle.sin(), angle.cos())"},
            kind="factor",
            line="",
        ),
        WrongAnswer(
            "the wrong angle: it treats radians as degrees",
            {"1j * angle": "1j * angle.deg2rad()"},
            kind="factor",
            line="",
        ),
        WrongAnswer(
            "the wrong angle: every pair is rotated by the first pair's",
            {"1j * angle": "1j * angle[:, :1]"},
            kind="wrong element",
            line="",
        ),
        WrongAnswer(
            "half of it is missing: the product with the sine",
            {"torch.exp(1j * angle)": "angle.cos()"},
            kind="not loaded",
            line="",
        ),
    ),
)
