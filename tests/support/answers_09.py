"""Notebook 09: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.rungs import RUNGS

RUNG_6 = Exercise(
    cell="09-ex1",
    judged_by=RUNGS[6],
    wrong_answers=(
        WrongAnswer(
            "more than 8 rows a program: stay at 8",
            {"num_warps = 8, 1": "num_warps = 16, 1"},
            state="NOT YET",
        ),
        WrongAnswer(
            "instructions can't be counted through a loop; write rows as a tile",
            {
                "    rows,  # b * h, rows of one position\n": "    rows,  # b * h\n",
                "    tl.store(out_ptr + offset, x1": (
                    "    for _ in range(1):\n        pass\n    tl.store(out_ptr + offset, x1"
                ),
            },
            state="NOT YET",
        ),
    ),
)


RUNG_7 = Exercise(
    cell="09-ex2",
    judged_by=RUNGS[7],
    wrong_answers=(
        WrongAnswer(
            "freqs_ptr is loaded after a sine: move (angle2 = tl.load(angle_ptr + HALF",
            {
                "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n": "",
                "    cos2, sin2": (
                    "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n    cos2, sin2"
                ),
            },
            state="NOT YET",
        ),
        WrongAnswer(
            "4 warps share the loads: see num_warps",
            {"block_r, num_warps = 8, 1": "block_r, num_warps = 8, 4"},
            state="NOT YET",
        ),
    ),
)


WHICH_LIMIT = Exercise(cell="09-ex4")
