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
    Wrong(*(1, "no i"), {"torch.exp(1j * angle)": "angle.exp()"}, "the i is missing"),
    Wrong(*(1, "conjugated"), {"= pairs *": "= pairs.conj() *"}, "the pair is conjugated: its"),
    Wrong(*(1, "a sum"), {"= pairs *": "= pairs +"}, "a sum, where the pair has to be multiplied"),
    Wrong(
        *(1, "an angle for a length"),
        {"torch.exp(1j * angle)": "torch.polar(angle, angle)"},
        "the angle is the length, too",
    ),
    Wrong(
        *(1, "the real part twice"), {"(turned)": "(turned.real * (1 + 1j))"}, "the real part twice"
    ),
    Wrong(
        *(1, "real parts first"),
        {"torch.view_as_real(turned).flatten(-2)": "torch.cat((turned.real, turned.imag), -1)"},
        "all real parts and then all imaginary ones",
    ),
    Wrong(
        *(1, "sine and cosine exchanged"),
        {"torch.exp(1j * angle)": "torch.complex(angle.sin(), angle.cos())"},
        "the wrong function: sine and cosine have changed places",
    ),
    Wrong(
        *(1, "degrees"),
        {"1j * angle": "1j * angle.deg2rad()"},
        "the wrong angle: it takes radians for degrees",
    ),
    Wrong(
        *(1, "one angle a row"),
        {"1j * angle": "1j * angle[:, :1]"},
        "the wrong angle: every pair is turned by the first pair's",
    ),
    Wrong(
        *(1, "a cosine for both"),
        {"torch.exp(1j * angle)": "angle.cos()"},
        "half of it is missing: the product with the sine",
    ),
]
