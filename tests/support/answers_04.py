"""Notebook 04: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n04 import exercises
from rope_lab.rungs import RUNGS

RIGHT_WRONG_OR_REFUSED = Exercise(cell="04-ex1")


COPY_WITH_STRIDES = Exercise(
    cell="04-ex3",
    judged_by=exercises.strided_copy,
    wrong_answers=(
        WrongAnswer(
            "a wrong stride: the last one is forgotten",
            {"column * stride_d": "column"},
            kind="load",
            line="x = tl.load(row_ptr + column, mask=exists)",
        ),
        WrongAnswer(
            "PyTorch runs clone or contiguous; let the kernel do it",
            {"    stride_s, stride_b,": "    t = t.contiguous()\n    stride_s, stride_b,"},
        ),
        WrongAnswer(
            "; it has to be contiguous",
            {
                "row_ptr = t_ptr +": "place = column * stride_d +",
                "row_ptr + column * stride_d": "t_ptr + place",
                "out_ptr + i,": "out_ptr + place,",
                "torch.empty(t.shape, dtype=t.dtype, device=t.device)": "torch.empty_like(t)",
            },
        ),
        WrongAnswer(
            "an index is a whole number: a // b, not a / b",
            {"sequence = i // (D * heads) %": "sequence = i / (D * heads) %"},
        ),
        WrongAnswer("an address begins with a pointer", {"row_ptr = t_ptr + ": "row_ptr = "}),
        WrongAnswer(
            "because: the result has the order of t's memory",
            {"out_ptr + i,": "out_ptr + i * stride_d,"},
            kind="store",
            line="tl.store(out_ptr + i * stride_d, x, mask=exists)",
        ),
    ),
)


PARTNER_AND_ANGLE = Exercise(
    cell="04-ex4",
    judged_by=exercises.rope_of_whole_heads,
    wrong_answers=(
        WrongAnswer(
            "a sign: that of the sine in the first half",
            {"quarter * tl.sin": "x_partner * tl.sin"},
            kind="factor",
            line="tl.store(out_ptr + i, x * tl.cos(angle) + x_partner * tl.",
        ),
        WrongAnswer(
            "tl.sin and tl.cos take fp32",
            {
                "column, mask=exists)\n    quarter": (
                    "column, mask=exists).to(tl.float16)\n    quarter"
                )
            },
        ),
    ),
)


RUNG_1 = Exercise(
    cell="04-ex2",
    judged_by=RUNGS[1],
    wrong_answers=(
        WrongAnswer(
            "a sign: it rotates by minus the angle",
            {"(in_first_half, -x_partner, x_partner)": "(in_first_half, x_partner, -x_partner)"},
            kind="sign",
            line="quarter = tl.where(in_first_half, x_partner, -x_partner)",
        ),
        WrongAnswer(
            "the last one is forgotten for the element itself",
            {"column * stride_d, mask=exists": "column, mask=exists"},
            kind="load",
            line="x = tl.load(row_ptr + column, mask=exists).to(tl.float32)",
        ),
        WrongAnswer(
            "the wrong row: sequence and head are counted in the other order",
            {"i // D % heads": "i // (D * batch) % heads", "i // (D * heads) %": "i // D %"},
            kind="pointer",
            line="row_ptr = t_ptr + position * stride_s + sequence * stride",
        ),
        WrongAnswer(
            "each element of t is loaded 3 times",
            {
                "    rotates =": (
                    "    again = tl.load(row_ptr + column * stride_d, mask=exists)\n"
                    "    x = (x + again.to(tl.float32)) / 2\n"
                    "    rotates ="
                )
            },
            state="NOT YET",
        ),
        WrongAnswer(
            "rung 1 requires sin/cos evaluations at most 4 a pair",
            {"x * tl.cos(angle) +": "x * tl.cos(angle + 0.0) * tl.cos(angle) / tl.cos(angle) +"},
            state="NOT YET",
        ),
        WrongAnswer(
            "in the case 'part of the head rotated'",  # an infinite tail times zero
            {"partner * stride_d, mask=rotates": "partner * stride_d, mask=exists"},
        ),
        WrongAnswer(
            "the wrong function: a sine for the cosine, in every element",
            {"x * tl.cos(": "x * tl.sin("},
            kind="factor",
            line="tl.store(out_ptr + i, x * tl.sin(angle) + quarter * tl.si",
        ),
        WrongAnswer(
            "a sign: every cosine has the opposite sign",
            {"x * tl.cos(": "-x * tl.cos("},
            kind="factor",
            line="tl.store(out_ptr + i, -x * tl.cos(angle) + quarter * tl.s",
        ),
        WrongAnswer(
            "the partner is missing: the sine multiplies the element itself",
            {"-x_partner, x_partner)": "-x, x)"},
            kind="not used",
            line="tl.store(out_ptr + i, x * tl.cos(angle) + quarter * tl.si",
        ),
        WrongAnswer(
            "the wrong angle: it rotates by half the angle",
            {"tl.cos(angle)": "tl.cos(angle / 2)", "tl.sin(angle)": "tl.sin(angle / 2)"},
            kind="factor",
            line="tl.store(out_ptr + i, x * tl.cos(angle / 2) + quarter * t",
        ),
        WrongAnswer(
            "the wrong angle: each half takes the angles of the other",
            {"position * D2 + column": "position * D2 + partner"},
            kind="load",
            line="angle = tl.load(freqs_ptr + position * D2 + partner, mask",
        ),
        WrongAnswer(
            "a wrong stride: rows of the table are d2 apart, not d2 / 2",
            {"position * D2 + column": "position * (D2 // 2) + column"},
            kind="load",
            line="angle = tl.load(freqs_ptr + position * (D2 // 2) + column",
        ),
        WrongAnswer(
            "those of positions and sequences have changed places",
            {
                "position * stride_s + sequence * stride_b": (
                    "position * stride_b + sequence * stride_s"
                )
            },
            kind="pointer",
            line="row_ptr = t_ptr + position * stride_b + sequence * stride",
        ),
        WrongAnswer(
            "that of heads is taken for a contiguous tensor's",
            {"head * stride_h": "head * D"},
            kind="pointer",
            line="row_ptr = t_ptr + position * stride_s + sequence * stride",
        ),
        WrongAnswer(
            "in the case 'batch and positions swapped in memory'",
            {"torch.empty(t.shape, dtype=t.dtype, device=t.device)": "torch.empty_like(t)"},
        ),
        WrongAnswer(
            "the wrong row: (0, 0, 1) of the result is made of t[0, 0, 0]",
            {"i // D % heads": "i // D % batch"},
            kind="index",
            line="head = i // D % batch",
        ),
        WrongAnswer(
            "t[0, 0, 0], and rotated by the angles of position 0, not of 1",
            {"i // (D * heads * batch)": "i // (D * heads * batch) % batch"},
            kind="index",
            line="position = i // (D * heads * batch) % batch",
        ),
        WrongAnswer(
            "the wrong angle: (0, 0, 0, 1) of the result is rotated by freqs[0, 0, 0, 0], not by",
            {"position * D2 + column": "position * D2 + column // 2 * 2"},
            kind="load",
            line="angle = tl.load(freqs_ptr + position * D2 + column // 2 *",
        ),
        WrongAnswer(
            "the wrong angle: its fraction is gone; is it converted to an integer?",
            {
                "column, mask=rotates, other=0.0)": (
                    "column, mask=rotates, other=0.0).to(tl.int32) * 1.0"
                )
            },
            kind="function",
            line="angle = tl.load(freqs_ptr + position * D2 + column, mask=",
        ),
        WrongAnswer(
            "(0, 0, 0, 1) of the result takes -t[0, 0, 0, 5], not t[0, 0, 0, 5]",
            {"tl.where(in_first_half, -x_partner": "tl.where(column % 2 == 0, -x_partner"},
            kind="factor",
            line="tl.store(out_ptr + i, x * tl.cos(angle) + quarter * tl.si",
        ),
        WrongAnswer(
            "the tail is forgotten: elements d2 and up are never written",
            {"sin(angle), mask=exists": "sin(angle), mask=rotates"},
            kind="unwritten",
            line="i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        ),
        WrongAnswer(
            "a load without `other` leaves it undefined",
            {"rotates, other=0.0": "rotates"},
            kind="masked",
            line="x_partner = tl.load(",
        ),
        WrongAnswer(
            "every result is right, so a mask is missing",
            {"exists & (column < D2)": "column < D2"},
            kind="mask",
            line="rotates = column < D2",
        ),
    ),
)
