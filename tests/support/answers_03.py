"""Notebook 03: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n03 import exercises

HOW_MANY_BYTES = Exercise(cell="03-ex2")


ROWS_AND_COLUMNS = Exercise(
    cell="03-ex3",
    judged_by=exercises.rotate_half_of_rows,
    wrong_answers=(
        WrongAnswer(
            "only the mask is wrong: it needs the rows and the columns",
            {"(row[:, None] < rows) & (column[None, :] < 2 * HALF)": "row[:, None] < rows"},
            kind="outside",
            line="tl.store(out_ptr + row[:, None] * 2 * HALF + column[None,",
        ),
        WrongAnswer(
            "for and, or, not, if write &, |, ~, where",
            {
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "(row[:, None] < rows) and (column[None, :] < 2 * HALF)"
                )
            },
        ),
        WrongAnswer(
            "means row[:, None] < (rows & column[None, :]) < 2 * HALF: put each",
            {
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "row[:, None] < rows & column[None, :] < 2 * HALF"
                )
            },
        ),
        WrongAnswer(
            "[:, None] makes a column of a block, and [None, :] a row",
            {
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "(row < rows) & (column < 2 * HALF)"
                )
            },
        ),
        WrongAnswer(
            "a sign: what is wrong has the opposite sign, in the first half",
            {"sign[None, :] * x": "x"},
            kind="factor",
            line="tl.store(out_ptr + row[:, None] * 2 * HALF + column[None,",
        ),
        WrongAnswer(
            "the kernel scatters: it stores an element at its partner's index",
            {
                "+ partner[None, :]": "+ column[None, :]",
                "+ column[None, :], sign": "+ partner[None, :], sign",
            },
            kind="sign",
            line="sign = tl.where(in_first_half, -1, 1)",
        ),
    ),
)
