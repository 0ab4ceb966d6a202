"""Notebook 04: the first RoPE kernels."""

from ..judge.definitions import rope  # noqa: F401 (the solutions ask for it here)
from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..rungs import RUNGS

# what becomes of five calls of the first kernel
OUTCOMES = ("right", "wrong", "refused")
FIVE_TESTS = {
    "one sequence, contiguous: row r is where the kernel looks for it": {1: "wrong"},
    "32 is a power of two, and Triton asks for no more": {1: "refused"},
    "three sequences have three times as many rows as the grid": {2: "right"},
    "16 is a power of two; Triton does not count rows": {2: "refused"},
    "only dimensions of size 1 moved: row r is where it was": {3: "wrong"},
    "16 is a power of two; Triton does not ask for strides": {3: "refused"},
    "a row begins 48 elements after the one before, and the kernel expects 16": {4: "right"},
    "the kernel is never told the strides, so nothing can refuse them": {4: "refused"},
    "the result is not the question: `tl.arange` takes powers of two": {5: "right"},
    "no program runs: `tl.arange` takes powers of two": {5: "wrong"},
}


RIGHT_WRONG_OR_REFUSED = Exercise(
    cell="04-ex1",
    judged_by=FIVE_TESTS,
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

RUNG_1 = Exercise(
    cell="04-ex2",
    judged_by=RUNGS[1],
    wrong_answers=(
        WrongAnswer(
            mistake="the sign of the other half",
            instead={"(in_first_half, -other, other)": "(in_first_half, other, -other)"},
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
            mistake="the tail rotated by what is there",
            instead={"mask=rotates, other=0.0)\n    quarter": "mask=rotates)\n    quarter"},
            told="a load without `other` leaves it undefined",
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
            mistake="the sign by half of the head",
            instead={"tl.where(in_first_half, -other": "tl.where(column < D // 2, -other"},
            told="the sign by half of D, where half of D2 decides",
        ),
        WrongAnswer(
            mistake="halves of the head",
            instead={"D2 // 2": "D // 2"},
            told="halves and partners by half of D, where half of D2 decides",
        ),
        WrongAnswer(
            mistake="the partner modulo the head",
            instead={
                "tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": (
                    "(column + D2 // 2) % D"
                )
            },
            told="the partner by % D: in the second half it is in the tail",
        ),
        WrongAnswer(
            mistake="the column modulo what rotates",
            instead={"column = i % D": "column = i % D2"},
            told="the column by % D2, where a row has D elements",
        ),
        WrongAnswer(
            mistake="neighbors",
            instead={"tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "column ^ 1"},
            told="the partner is the neighbor, where half of D2 is between",
        ),
        WrongAnswer(
            mistake="from both ends",
            instead={
                "tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "D2 - 1 - column"
            },
            told="the first with the last, where half of D2 is between",
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
            instead={"-other, other)": "-x, x)"},
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
            mistake="a partner of the first row",
            instead={"row_ptr + partner": "t_ptr + partner"},
            told="the wrong partner: (0, 0, 1, 0) of the result takes t[0, 0, 0, 4], not "
            "t[0, 0, 1, 4]",
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
            instead={"tl.where(in_first_half, -other": "tl.where(column % 2 == 0, -other"},
            told="(0, 0, 0, 1) of the result takes -t[0, 0, 0, 5], not t[0, 0, 0, 5]",
        ),
    ),
)
