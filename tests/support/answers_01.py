"""Notebook 01: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n01 import exercises

TURN_PAIRS = Exercise(
    cell="01-ex1",
    judged_by=exercises.turned_pairs,
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
