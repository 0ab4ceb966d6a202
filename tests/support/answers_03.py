"""Notebook 03: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer, WrongValue
from rope_lab.n03 import exercises

HOW_MANY_BYTES = Exercise(
    cell="03-ex2",
    judged_by=exercises.BYTES_OF_THREE_LOADS,
    wrong_answers=(
        WrongValue(given=[128, 1024, 160], told="the bytes that the threads use"),
        WrongValue(given=[512, 512, 160], told="two threads share a sector"),
    ),
)


ROWS_AND_COLUMNS = Exercise(
    cell="03-ex3",
    judged_by=exercises.rotate_half_of_rows,
    wrong_answers=(
        WrongAnswer(
            mistake="a mask of rows alone",
            instead={"(row[:, None] < rows) & (column[None, :] < 2 * HALF)": "row[:, None] < rows"},
            told="only the mask is wrong: it needs the rows and the columns",
        ),
        WrongAnswer(
            mistake="and for &",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "(row[:, None] < rows) and (column[None, :] < 2 * HALF)"
                ),
            },
            told="for and, or, not, if write &, |, ~, where",
        ),
        WrongAnswer(
            mistake="no parentheses",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "row[:, None] < rows & column[None, :] < 2 * HALF"
                ),
            },
            told="means row[:, None] < (rows & column[None, :]) < 2 * HALF: put each",
        ),
        WrongAnswer(
            mistake="a mask without dimensions",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "(row < rows) & (column < 2 * HALF)"
                ),
            },
            told="[:, None] makes a column of a block, and [None, :] a row",
        ),
        WrongAnswer(
            mistake="no sign",
            instead={"sign[None, :] * x": "x"},
            told="a sign: what is wrong has the opposite sign, in the first half",
        ),
        WrongAnswer(
            mistake="a scatter",
            instead={
                "+ partner[None, :]": "+ column[None, :]",
                "+ column[None, :], sign": ("+ partner[None, :], sign"),
            },
            told="the kernel scatters: it stores an element in its partner's place",
        ),
    ),
)
