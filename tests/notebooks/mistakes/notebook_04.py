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
    WrongRung(
        *(1, "halves of the head"),
        {"D2 // 2": "D // 2"},
        *("halves and partners by half of D, where half of D2 decides", "WRONG"),
    ),
    WrongRung(
        *(1, "the partner modulo the head"),
        {"tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "(column + D2 // 2) % D"},
        *("the partner by % D: in the second half it is in the tail", "WRONG"),
    ),
    WrongRung(
        *(1, "the column modulo what rotates"),
        {"column = i % D": "column = i % D2"},
        *("the column by % D2, where a row has D elements", "WRONG"),
    ),
    WrongRung(
        *(1, "neighbors"),
        {"tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "column ^ 1"},
        *("the partner is the neighbor, where half of D2 is between", "WRONG"),
    ),
    WrongRung(
        *(1, "from both ends"),
        {"tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "D2 - 1 - column"},
        *("the first with the last, where half of D2 is between", "WRONG"),
    ),
    WrongRung(
        *(1, "a sine for both"),
        {"x * tl.cos(": "x * tl.sin("},
        *("the wrong function: a sine for the cosine, in every element", "WRONG"),
    ),
    WrongRung(
        *(1, "the sign of the cosine"),
        {"x * tl.cos(": "-x * tl.cos("},
        *("a sign: every cosine has the opposite sign", "WRONG"),
    ),
    WrongRung(
        *(1, "the element for its partner"),
        {"-other, other)": "-x, x)"},
        *("the partner is missing: the sine multiplies the element itself", "WRONG"),
    ),
    WrongRung(
        *(1, "angles halved"),
        {"tl.cos(angle)": "tl.cos(angle / 2)", "tl.sin(angle)": "tl.sin(angle / 2)"},
        *("the wrong angle: it turns by half the angle", "WRONG"),
    ),
    WrongRung(
        *(1, "the partner's angle"),
        {"position * D2 + column": "position * D2 + partner"},
        *("the wrong angle: each half takes the angles of the other", "WRONG"),
    ),
    WrongRung(
        *(1, "rows of half a table"),
        {"position * D2 + column": "position * (D2 // 2) + column"},
        *("a wrong stride: rows of the table are d2 apart, not d2 / 2", "WRONG"),
    ),
    WrongRung(
        *(1, "only the first half"),
        {"(column < D2)": "(column < D2 // 2)"},
        *("unchanged in the second half: it comes out as it came", "WRONG"),
    ),
    WrongRung(
        *(1, "two strides exchanged"),
        {"position * stride_s + sequence * stride_b": "position * stride_b + sequence * stride_s"},
        *("those of positions and sequences have changed places", "WRONG"),
    ),
    WrongRung(
        *(1, "heads side by side"),
        {"head * stride_h": "head * D"},
        *("that of heads is taken for a contiguous tensor's", "WRONG"),
    ),
    WrongRung(
        *(1, "the strides of the input"),
        {"torch.empty(t.shape, dtype=t.dtype, device=t.device)": "torch.empty_like(t)"},
        *("a wrong stride: empty_like keeps those of its input", "WRONG"),
    ),
    WrongRung(
        *(1, "the batch for the heads"),
        {"i // D % heads": "i // D % batch"},
        *("the wrong row: (0, 0, 1) of the result is made of t[0, 0, 0]", "WRONG"),
    ),
    WrongRung(
        *(1, "positions modulo the batch"),
        {"i // (D * heads * batch)": "i // (D * heads * batch) % batch"},
        *("t[0, 0, 0], and turned by the angles of position 0, not of 1", "WRONG"),
    ),
    WrongRung(
        *(1, "a partner of the first row"),
        {"row_ptr + partner": "t_ptr + partner"},
        *(
            "the wrong partner: (0, 0, 1, 0) of the result takes t[0, 0, 0, 4], not t[0, 0, 1, 4]",
            "WRONG",
        ),
    ),
    WrongRung(
        *(1, "a neighbor's angle"),
        {"position * D2 + column": "position * D2 + column // 2 * 2"},
        *(
            "the wrong angle: (0, 0, 0, 1) of the result is turned by freqs[0, 0, 0, 0], not by",
            "WRONG",
        ),
    ),
    WrongRung(
        *(1, "an integer for the angle"),
        {"column, mask=rotates, other=0.0)": "column, mask=rotates, other=0.0).to(tl.int32) * 1.0"},
        *("the wrong angle: its fraction is gone; is it converted to an integer?", "WRONG"),
    ),
    WrongRung(
        *(1, "the sign by even and odd columns"),
        {"tl.where(in_first_half, -other": "tl.where(column % 2 == 0, -other"},
        *("(0, 0, 0, 1) of the result takes -t[0, 0, 0, 5], not t[0, 0, 0, 5]", "WRONG"),
    ),
]
