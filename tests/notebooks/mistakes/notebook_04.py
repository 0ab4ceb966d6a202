"""Mistakes in answers to notebook 04."""

from . import WrongRung

NUMBERS = {
    1: [
        (["right", "right", "right", "wrong", "refused"], "three times as many rows as the grid"),
        (["right", "wrong", "right", "wrong", "maybe"], "'maybe' is none of right, wrong, refused"),
    ],
}
RUNGS = [
    # 1: the whole formula
    WrongRung(
        *(1, "the sign of the other half"),
        {"(in_first_half, -other, other)": "(in_first_half, other, -other)"},
        *("a sign: it rotates by minus the angle", "WRONG"),
    ),
    WrongRung(
        *(1, "a stride that is not used"),
        {"column * stride_d, mask=exists": "column, mask=exists"},
        *("the last one is forgotten for the element itself", "WRONG"),
    ),
    WrongRung(
        *(1, "sequence and head exchanged"),
        {"i // D % heads": "i // (D * batch) % heads", "i // (D * heads) %": "i // D %"},
        *("the wrong row: sequence and head are counted in the other order", "WRONG"),
    ),
    WrongRung(
        *(1, "the tail rotated by what is there"),
        {"mask=rotates, other=0.0)\n    quarter": "mask=rotates)\n    quarter"},
        *("a load without `other` leaves it undefined", "WRONG"),
    ),
    WrongRung(
        *(1, "every element loaded three times"),
        {
            "    rotates =": "    again = tl.load(row_ptr + column * stride_d, mask=exists)\n"
            "    x = (x + again.to(tl.float32)) / 2\n    rotates ="
        },
        "each element of t is loaded 3 times",
    ),
    WrongRung(
        *(1, "cos and sin evaluated twice"),
        {"x * tl.cos(angle) +": "x * tl.cos(angle + 0.0) * tl.cos(angle) / tl.cos(angle) +"},
        "rung 1 wants sin/cos evaluations at most 4 a pair",
    ),
    WrongRung(
        *(1, "the sign by half of the head"),
        {"tl.where(in_first_half, -other": "tl.where(column < D // 2, -other"},
        *("the sign by half of D, where half of D2 decides", "WRONG"),
    ),
]
