"""Notebook 04: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer, WrongValue
from rope_lab.n04 import exercises
from rope_lab.rungs import RUNGS

RIGHT_WRONG_OR_REFUSED = Exercise(
    cell="04-ex1",
    judged_by=exercises.FIVE_TESTS,
    wrong_answers=(
        WrongValue(
            given=["right", "right", "right", "wrong", "refused"],
            told="three times as many rows as the grid",
        ),
        WrongValue(
            given=["right", "wrong", "right", "wrong", "maybe"],
            told="'maybe' is none of right, wrong, refused",
        ),
    ),
)


COPY_WITH_STRIDES = Exercise(
    cell="04-ex3",
    judged_by=exercises.strided_copy,
    wrong_answers=(
        WrongAnswer(
            mistake="the last stride forgotten",
            instead={"column * stride_d": "column"},
            told="a wrong stride: the last one is forgotten",
        ),
        WrongAnswer(
            mistake="a quotient with a fraction",
            instead={"sequence = i // (D * heads) %": "sequence = i / (D * heads) %"},
            told="an index is a whole number: a // b, not a / b",
        ),
        WrongAnswer(
            mistake="no pointer",
            instead={"row_ptr = t_ptr + ": "row_ptr = "},
            told="an address begins with a pointer",
        ),
        WrongAnswer(
            mistake="a stride in the result",
            instead={"out_ptr + i,": "out_ptr + i * stride_d,"},
            told="because: t comes out in the order of its memory",
        ),
    ),
)


PARTNER_AND_ANGLE = Exercise(
    cell="04-ex4",
    judged_by=exercises.rope_of_whole_heads,
    wrong_answers=(
        WrongAnswer(
            mistake="no sign",
            instead={"quarter * tl.sin": "x_partner * tl.sin"},
            told="a sign: that of the sine in the first half",
        ),
        WrongAnswer(
            mistake="the angle of position 0",
            instead={"freqs_ptr + position * D + column": "freqs_ptr + column"},
            told="the angle is that of 0, the first position",
        ),
        WrongAnswer(
            mistake="an angle in half precision",
            instead={
                "column, mask=exists)\n    quarter": (
                    "column, mask=exists).to(tl.float16)\n    quarter"
                )
            },
            told="tl.sin and tl.cos take fp32",
        ),
    ),
)


RUNG_1 = Exercise(
    cell="04-ex2",
    judged_by=RUNGS[1],
    wrong_answers=(
        WrongAnswer(
            mistake="the sign of the other half",
            instead={
                "(in_first_half, -x_partner, x_partner)": "(in_first_half, x_partner, -x_partner)"
            },
            told="a sign: it rotates by minus the angle",
        ),
        WrongAnswer(
            mistake="a stride that is not used",
            instead={"column * stride_d, mask=exists": "column, mask=exists"},
            told="the last one is forgotten for the element itself",
        ),
        WrongAnswer(
            mistake="sequence and head exchanged",
            instead={
                "i // D % heads": "i // (D * batch) % heads",
                "i // (D * heads) %": "i // D %",
            },
            told="the wrong row: sequence and head are counted in the other order",
        ),
        WrongAnswer(
            mistake="every element loaded three times",
            instead={
                "    rotates =": (
                    "    again = tl.load(row_ptr + column * stride_d, mask=exists)\n"
                    "    x = (x + again.to(tl.float32)) / 2\n"
                    "    rotates ="
                )
            },
            told="each element of t is loaded 3 times",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="cos and sin evaluated twice",
            instead={
                "x * tl.cos(angle) +": "x * tl.cos(angle + 0.0) * tl.cos(angle) / tl.cos(angle) +"
            },
            told="rung 1 wants sin/cos evaluations at most 4 a pair",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="a sine for both",
            instead={"x * tl.cos(": "x * tl.sin("},
            told="the wrong function: a sine for the cosine, in every element",
        ),
        WrongAnswer(
            mistake="the sign of the cosine",
            instead={"x * tl.cos(": "-x * tl.cos("},
            told="a sign: every cosine has the opposite sign",
        ),
        WrongAnswer(
            mistake="the element for its partner",
            instead={"-x_partner, x_partner)": "-x, x)"},
            told="the partner is missing: the sine multiplies the element itself",
        ),
        WrongAnswer(
            mistake="angles halved",
            instead={"tl.cos(angle)": "tl.cos(angle / 2)", "tl.sin(angle)": "tl.sin(angle / 2)"},
            told="the wrong angle: it turns by half the angle",
        ),
        WrongAnswer(
            mistake="the partner's angle",
            instead={"position * D2 + column": "position * D2 + partner"},
            told="the wrong angle: each half takes the angles of the other",
        ),
        WrongAnswer(
            mistake="rows of half a table",
            instead={"position * D2 + column": "position * (D2 // 2) + column"},
            told="a wrong stride: rows of the table are d2 apart, not d2 / 2",
        ),
        WrongAnswer(
            mistake="only the first half",
            instead={"(column < D2)": "(column < D2 // 2)"},
            told="unchanged in the second half: it comes out as it came",
        ),
        WrongAnswer(
            mistake="two strides exchanged",
            instead={
                "position * stride_s + sequence * stride_b": (
                    "position * stride_b + sequence * stride_s"
                )
            },
            told="those of positions and sequences have changed places",
        ),
        WrongAnswer(
            mistake="heads side by side",
            instead={"head * stride_h": "head * D"},
            told="that of heads is taken for a contiguous tensor's",
        ),
        WrongAnswer(
            mistake="the strides of the input",
            instead={"torch.empty(t.shape, dtype=t.dtype, device=t.device)": "torch.empty_like(t)"},
            told="a wrong stride: empty_like keeps those of its input",
        ),
        WrongAnswer(
            mistake="the batch for the heads",
            instead={"i // D % heads": "i // D % batch"},
            told="the wrong row: (0, 0, 1) of the result is made of t[0, 0, 0]",
        ),
        WrongAnswer(
            mistake="positions modulo the batch",
            instead={"i // (D * heads * batch)": "i // (D * heads * batch) % batch"},
            told="t[0, 0, 0], and turned by the angles of position 0, not of 1",
        ),
        WrongAnswer(
            mistake="a neighbor's angle",
            instead={"position * D2 + column": "position * D2 + column // 2 * 2"},
            told="the wrong angle: (0, 0, 0, 1) of the result is turned by freqs[0, 0, 0, "
            "0], not by",
        ),
        WrongAnswer(
            mistake="an integer for the angle",
            instead={
                "column, mask=rotates, other=0.0)": (
                    "column, mask=rotates, other=0.0).to(tl.int32) * 1.0"
                )
            },
            told="the wrong angle: its fraction is gone; is it converted to an integer?",
        ),
        WrongAnswer(
            mistake="the sign by even and odd columns",
            instead={"tl.where(in_first_half, -x_partner": "tl.where(column % 2 == 0, -x_partner"},
            told="(0, 0, 0, 1) of the result takes -t[0, 0, 0, 5], not t[0, 0, 0, 5]",
        ),
        WrongAnswer(
            mistake="the tail masked off at the store",
            instead={"sin(angle), mask=exists": "sin(angle), mask=rotates"},
            told="the tail is forgotten: elements d2 and up are never written",
        ),
        WrongAnswer(
            mistake="no zeros",
            instead={"rotates, other=0.0": "rotates"},
            told="a load without `other` leaves it undefined",
        ),
        WrongAnswer(
            mistake="a mask that lets all past the end",
            instead={"exists & (column < D2)": "column < D2"},
            told="every result is right, so a mask is missing",
        ),
    ),
)
