"""Notebook 06: its exercises, and wrong answers to them."""

from exercise import Exercise, KernelOfTheRungBelow, WrongAnswer
from rope_lab.rungs import RUNGS

RUNG_4 = Exercise(
    cell="06-ex1",
    judged_by=RUNGS[4],
    wrong_answers=(
        WrongAnswer(
            "the wrong sine: each half takes the sine that the other",
            {"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = -sin1, -sin2"},
            kind="index",
            line="sin1, sin2 = -sin1, -sin2",
        ),
        WrongAnswer(
            "the gradient for minus the angles",
            {"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = sin2, sin1"},
            kind="index",
            line="sin1, sin2 = sin2, sin1",
        ),
        WrongAnswer(
            "the wrong cosine: each half takes the cosine of the",
            {
                "        sin1, sin2 = -sin2, -sin1\n": (
                    "        sin1, sin2 = -sin2, -sin1\n        cos1, cos2 = cos2, cos1\n"
                )
            },
            kind="index",
            line="cos1, cos2 = cos2, cos1",
        ),
        WrongAnswer(
            "in the case 'backward in place, small and plain'",
            {"    if out is None:\n": "    if out is None or transpose:\n"},
            kind="unwritten",
            line="tl.store(out_ptr + offset, x1 * cos1 - x2 * sin1, mask=ex",
        ),
        WrongAnswer(
            "the backward launches another kernel, where this one with a flag would do",
            {
                "    s, b, h, d = t.shape\n": (
                    "    from rope_kernels import rope_bw\n"
                    "\n"
                    "    if transpose and out is None:\n"
                    "        return rope_bw(t, freqs)\n"
                    "    s, b, h, d = t.shape\n"
                )
            },
            state="NOT YET",
        ),
        WrongAnswer(
            "the wrong sine: the first half has the sine of the other angle; the second half has",
            {"        sin1, sin2 = -sin2, -sin1\n": "        sin1 = -sin1\n"},
            kind="not used",
            line="tl.store(out_ptr + offset, x1 * cos1",
        ),
        WrongAnswer(
            "the transposed map instead of the map itself",
            {"if TRANSPOSE:": "if not TRANSPOSE:"},
            kind="argument",
            line="sin1, sin2 = -sin2, -sin1",
        ),
        KernelOfTheRungBelow(rung=4, words="my_rope takes no `transpose`"),
    ),
)


WHICH_TEST_FINDS_IT = Exercise(cell="06-ex3")
