"""Notebook 07: its exercises, and wrong answers to them."""

from exercise import Exercise, KernelOfTheRungBelow, WrongAnswer, WrongValue
from rope_lab.n07 import exercises
from rope_lab.rungs import RUNGS

WHICH_ARGUMENT = Exercise(
    cell="07-ex1",
    judged_by=exercises.CULPRITS,
    wrong_answers=(
        WrongValue(
            given=["num_warps", "row_stride", "num_warps", "t"], told="a thread holds 8 elements"
        ),
        WrongValue(
            given=["row_stride", "row_stride", "num_warps", "t"], told="16 divides this row_stride"
        ),
    ),
)


RUNG_5 = Exercise(
    cell="07-ex2",
    judged_by=RUNGS[5],
    wrong_answers=(
        WrongAnswer(
            mistake="four rows",
            instead={"num_warps = 8, 1": "num_warps = 4, 1"},
            told="fewer than 8 rows a program, for the same sines: stay at 8",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="one row",
            instead={"num_warps = 8, 1": "num_warps = 1, 1"},
            told="they take 164 us to start",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="two warps",
            instead={"num_warps = 8, 1": "num_warps = 8, 2"},
            told="64 lanes share the angles of a row: how many has each? See num_warps",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="pairs from the last to the first",
            instead={
                "pair = tl.arange(0, BLOCK_HALF)": (
                    "pair = BLOCK_HALF - 1 - tl.arange(0, BLOCK_HALF)"
                )
            },
            told="16 bytes need neighbors in one lane",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="the flag of rung 4 lost",
            instead={"TRANSPOSE=transpose": "TRANSPOSE=False"},
            told="a sign and the wrong sine: the map itself",
        ),
        KernelOfTheRungBelow(
            rung=5,
            told="rung 4 as it was: for which edit is there evidence above the exercise?",
        ),
    ),
)
