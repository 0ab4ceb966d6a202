"""Notebook 09: its exercises, and wrong answers to them."""

from exercise import Exercise, KernelOfTheRungBelow, WrongAnswer, WrongValue
from rope_lab.n09 import exercises
from rope_lab.rungs import RUNGS

RUNG_6 = Exercise(
    cell="09-ex1",
    judged_by=RUNGS[6],
    wrong_answers=(
        WrongAnswer(
            mistake="sixteen rows",
            instead={"num_warps = 8, 1": "num_warps = 16, 1"},
            told="more than 8 rows a program: stay at 8",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="a loop over rows",
            instead={
                "    rows,  # b * h, rows of one position\n": "    rows,  # b * h\n",
                "    tl.store(out_ptr + offset, x1": (
                    "    for _ in range(1):\n        pass\n    tl.store(out_ptr + offset, x1"
                ),
            },
            told="instructions can't be counted through a loop; write rows as a tile",
            state="NOT YET",
        ),
        KernelOfTheRungBelow(
            rung=6,
            told="rung 5 as it was: for which edit is there evidence above the exercise?",
        ),
    ),
)


RUNG_7 = Exercise(
    cell="09-ex2",
    judged_by=RUNGS[7],
    wrong_answers=(
        WrongAnswer(
            mistake="one sine before the second angle",
            instead={
                "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n": "",
                "    cos2, sin2": (
                    "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n    cos2, sin2"
                ),
            },
            told="freqs_ptr is loaded after a sine: move (angle2 = tl.load(angle_ptr + HALF",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="four warps",
            instead={"block_r, num_warps = 8, 1": "block_r, num_warps = 8, 4"},
            told="4 warps share the loads: see num_warps",
            state="NOT YET",
        ),
        KernelOfTheRungBelow(
            rung=7,
            told="rung 6 as it was: for which edit is there evidence above the exercise?",
        ),
    ),
)


WHICH_LIMIT = Exercise(
    cell="09-ex4",
    judged_by=exercises.which_bound,
    wrong_answers=(
        WrongValue(
            given=["instructions", "instructions", "programs", "bytes"],
            told="its instructions take 7 us",
        ),
        WrongValue(given=["bytes", "bytes", "programs", "bytes"], told="its bytes take 30 us"),
    ),
)
