"""Notebook 07: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.rungs import RUNGS

WHICH_ARGUMENT = Exercise(cell="07-ex1")


RUNG_5 = Exercise(
    cell="07-ex2",
    judged_by=RUNGS[5],
    wrong_answers=(
        WrongAnswer(
            "fewer than 8 rows a program, for the same sines: stay at 8",
            {"num_warps = 8, 1": "num_warps = 4, 1"},
            state="NOT YET",
        ),
        WrongAnswer(
            "they take 164 us to start", {"num_warps = 8, 1": "num_warps = 1, 1"}, state="NOT YET"
        ),
        WrongAnswer(
            "64 lanes share the angles of a row: how many has each? See num_warps",
            {"num_warps = 8, 1": "num_warps = 8, 2"},
            state="NOT YET",
        ),
        WrongAnswer(
            "16 bytes need neighbors in one lane",
            {
                "pair = tl.arange(0, BLOCK_HALF)": (
                    "pair = BLOCK_HALF - 1 - tl.arange(0, BLOCK_HALF)"
                )
            },
            state="NOT YET",
        ),
        WrongAnswer(
            "a sign and the wrong sine: the map itself", {"TRANSPOSE=transpose": "TRANSPOSE=False"}
        ),
    ),
)
