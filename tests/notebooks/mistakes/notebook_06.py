"""Mistakes in answers to notebook 06."""

from . import WrongRung

NUMBERS = {
    2: [
        ([2, 2, 1, 4, 3], "passes test 2"),
        ([4, 2, 1, 4, 3], "fails test 4, but another one fails before that"),
    ],
}
RUNGS = [
    # 4: its own backward
    WrongRung(
        *(4, "minus the angle"),
        {"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = -sin1, -sin2"},
        *("the wrong sine: each half takes the sine that the other", "WRONG"),
    ),
    WrongRung(
        *(4, "the sines exchanged without a sign"),
        {"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = sin2, sin1"},
        *("the gradient for minus the angles", "WRONG"),
    ),
    WrongRung(
        *(4, "cosines exchanged, too"),
        {
            "        sin1, sin2 = -sin2, -sin1\n": "        sin1, sin2 = -sin2, -sin1\n"
            "        cos1, cos2 = cos2, cos1\n"
        },
        *("the wrong cosine: each half takes the cosine of the", "WRONG"),
    ),
    WrongRung(
        *(4, "`out` forgotten in the backward"),
        {"    if out is None:\n": "    if out is None or transpose:\n"},
        *("in the case 'backward in place, small and plain'", "WRONG"),
    ),
    WrongRung(
        *(4, "a flag that isn't a constant"),
        {"TRANSPOSE: tl.constexpr,": "TRANSPOSE,"},
        *("a flag or a size is NAME: tl.constexpr", "WRONG"),
    ),
    WrongRung(
        *(4, "another kernel for the backward"),
        {
            "    s, b, h, d = t.shape\n": "    from rope_kernels import rope_bw\n\n"
            "    if transpose and out is None:\n        return rope_bw(t, freqs)\n"
            "    s, b, h, d = t.shape\n"
        },
        "the backward launches another kernel, where a flag of this one would do",
    ),
    WrongRung(
        *(4, "sin1 first, then sin2"),
        {"        sin1, sin2 = -sin2, -sin1\n": "        sin1 = -sin2\n        sin2 = -sin1\n"},
        *("sin2 is still the forward's: is it made of sin1, which is -sin2 by then?", "WRONG"),
    ),
    WrongRung(
        *(4, "sin2 first, then sin1"),
        {"        sin1, sin2 = -sin2, -sin1\n": "        sin2 = -sin1\n        sin1 = -sin2\n"},
        *("sin1 is still the forward's: is it made of sin2, which is -sin1 by then?", "WRONG"),
    ),
    WrongRung(
        *(4, "cosines for sines"),
        {"        sin1, sin2 = -sin2, -sin1\n": "        cos1, cos2 = cos2, cos1\n"},
        *("the cosines are exchanged, where the sines have to be, with a sign", "WRONG"),
    ),
    WrongRung(
        *(4, "one sign"),
        {"        sin1, sin2 = -sin2, -sin1\n": "        sin1 = -sin1\n"},
        *(
            "the wrong sine: the first half has the sine of the other angle; the second half has",
            "WRONG",
        ),
    ),
]
