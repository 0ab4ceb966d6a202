"""Notebook 01: the math, in PyTorch."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import BLOCKS, OTHER_SIZES
from ..judge.mistakes import Mistake, Solution
from ..judge.spec import STRIDED, spec

TURN_PAIRS = Solution("01-ex1")


@spec(
    leave_out=(*BLOCKS, *STRIDED, "half precision"),
    extra=OTHER_SIZES,
    mistakes=TURN_PAIRS.with_mistakes(
        Mistake(
            "the i is missing: exp of a real number stretches, and doesn't rotate",
            {"torch.exp(1j * angle)": "angle.exp()"},
        ),
        Mistake(
            "the pair is conjugated: its second element has the opposite sign",
            {"= pairs *": "= pairs.conj() *"},
        ),
        Mistake("the pair is added: multiply it", {"= pairs *": "= pairs +"}),
        Mistake(
            "the angle is the length, too: torch.polar takes a length, 1, and an angle",
            {"torch.exp(1j * angle)": "torch.polar(angle, angle)"},
        ),
        Mistake(
            "the pairs are halves, not neighbors, and come out as neighbors",
            pairs="torch.view_as_complex(x.unflatten(-1, (2, -1)).mT.contiguous())",
        ),
        Mistake(
            "the real part twice: where is the imaginary one?",
            {"(turned)": "(turned.real * (1 + 1j))"},
        ),
        Mistake(
            "all real parts and then all imaginary ones: the two of a pair are neighbors",
            {
                "torch.view_as_real(turned).flatten(-2)": (
                    "torch.cat((turned.real, turned.imag), -1)"
                )
            },
        ),
    ),
)
def turned_pairs(x: "(s, d)", angle: "angles (s, p)"):
    """Each row's neighbors turned by that row's angles, one for each pair."""
    x, y = x[..., ::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((x * cos - y * sin, x * sin + y * cos), dim=-1).flatten(-2)
