"""Mistakes in answers to notebook 01."""

from . import Wrong

ANSWERS = [
    # turn pairs by complex numbers
    Wrong(
        *(1, "halves"),
        {
            "x.unflatten(-1, (-1, 2))": "x.unflatten(-1, (2, -1)).mT.contiguous()",
            "view_as_real(turned)": "view_as_real(turned).mT",
        },
        "the wrong pairing: it pairs halves (i, i + d2/2), where neighbors",
    ),
    Wrong(
        *(1, "the imaginary part first"),
        {"(turned)": "(turned).flip(-1)"},
        "neighbors swapped: each of the two",
    ),
    Wrong(
        *(1, "only the real part"),
        {"(turned)": "(turned.real + 0j)"},
        "zero: what is wrong is zero, in the second of each two neighbors",
    ),
    Wrong(
        *(1, "a minus for all"),
        {"(turned)": "(-turned)"},
        "every element has the opposite sign",
    ),
]
