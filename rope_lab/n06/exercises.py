"""Notebook 06: which test finds a wrong backward."""

from collections.abc import Sequence

from ..judge.exercise import Exercise, KernelOfTheRungBelow, WrongAnswer, WrongValue
from ..rungs import RUNGS

RUNG_4 = Exercise(
    cell="06-ex1",
    judged_by=RUNGS[4],
    wrong_answers=(
        WrongAnswer(
            mistake="minus the angle",
            instead={"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = -sin1, -sin2"},
            told="the wrong sine: each half takes the sine that the other",
        ),
        WrongAnswer(
            mistake="the sines exchanged without a sign",
            instead={"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = sin2, sin1"},
            told="the gradient for minus the angles",
        ),
        WrongAnswer(
            mistake="cosines exchanged, too",
            instead={
                "        sin1, sin2 = -sin2, -sin1\n": (
                    "        sin1, sin2 = -sin2, -sin1\n        cos1, cos2 = cos2, cos1\n"
                )
            },
            told="the wrong cosine: each half takes the cosine of the",
        ),
        WrongAnswer(
            mistake="`out` forgotten in the backward",
            instead={"    if out is None:\n": "    if out is None or transpose:\n"},
            told="in the case 'backward in place, small and plain'",
        ),
        WrongAnswer(
            mistake="another kernel for the backward",
            instead={
                "    s, b, h, d = t.shape\n": (
                    "    from rope_kernels import rope_bw\n"
                    "\n"
                    "    if transpose and out is None:\n"
                    "        return rope_bw(t, freqs)\n"
                    "    s, b, h, d = t.shape\n"
                )
            },
            told="the backward launches another kernel, where a flag of this one would do",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="sin1 first, then sin2",
            instead={
                "        sin1, sin2 = -sin2, -sin1\n": (
                    "        sin1 = -sin2\n        sin2 = -sin1\n"
                )
            },
            told="sin2 is still the forward's: is it made of sin1, which is -sin2 by then?",
        ),
        WrongAnswer(
            mistake="sin2 first, then sin1",
            instead={
                "        sin1, sin2 = -sin2, -sin1\n": (
                    "        sin2 = -sin1\n        sin1 = -sin2\n"
                )
            },
            told="sin1 is still the forward's: is it made of sin2, which is -sin1 by then?",
        ),
        WrongAnswer(
            mistake="cosines for sines",
            instead={"        sin1, sin2 = -sin2, -sin1\n": "        cos1, cos2 = cos2, cos1\n"},
            told="the cosines are exchanged, where the sines have to be, with a sign",
        ),
        WrongAnswer(
            mistake="one sign",
            instead={"        sin1, sin2 = -sin2, -sin1\n": "        sin1 = -sin1\n"},
            told="the wrong sine: the first half has the sine of the other angle; the "
            "second half has",
        ),
        WrongAnswer(
            mistake="cosines negated",
            instead={
                "        sin1, sin2 = -sin2, -sin1\n": "        cos1, cos2 = -cos1, -cos2\n",
            },
            told="the cosines are negated, where the sines have to be, and exchanged",
        ),
        WrongAnswer(
            mistake="the flag the wrong way round",
            instead={"if TRANSPOSE:": "if not TRANSPOSE:"},
            told="the transposed map, where the map itself is asked for",
        ),
        WrongAnswer(
            mistake="sines and cosines exchanged without a sign",
            instead={
                "sin1, sin2 = -sin2, -sin1": "sin1, sin2, cos1, cos2 = sin2, sin1, cos2, cos1"
            },
            told="each half has the cosine and the sine of the other",
        ),
        WrongAnswer(
            mistake="members for sines",
            instead={
                "        sin1, sin2 = -sin2, -sin1\n": "        pass\n",
                "    tl.store(out_ptr + offset, x1": (
                    "    if TRANSPOSE:\n        x1, x2 = x2, x1\n    tl.store(out_ptr + offset, x1"
                ),
            },
            told="x1 and x2 are exchanged, where the sines have to be",
        ),
        KernelOfTheRungBelow(rung=4, told="my_rope takes no `transpose`"),
    ),
)

# the first of four tests that fails
FOUR_TESTS = {
    1: "ones, matching halves",
    2: "a random gradient, matching halves",
    3: "a random gradient, mismatched halves",
    4: "a transposed gradient, mismatched halves",
}


def first_to_fail(failed: Sequence[Sequence[int]]) -> dict[str, object]:
    """What `check_choices` needs, from the tests that each wrong backward fails."""
    mistakes = {}
    for test in FOUR_TESTS:
        passes = {place: test for place, one in enumerate(failed, 1) if test not in one}
        mistakes[f"this backward passes test {test}: what does the test not tell apart?"] = passes
        later = {place: test for place, one in enumerate(failed, 1) if test in one[1:]}
        mistakes[f"it fails test {test}, but another one fails before that"] = later
    return {
        "right": [one[0] for one in failed],
        "choices": FOUR_TESTS,
        "mistakes": mistakes,
        "hint": "what each test cannot tell apart",
    }


WHICH_TEST_FINDS_IT = Exercise(
    cell="06-ex3",
    judged_by=first_to_fail,
    wrong_answers=(
        WrongValue(given=[2, 2, 1, 4, 3], told="passes test 2"),
        WrongValue(given=[4, 2, 1, 4, 3], told="fails test 4, but another one fails before that"),
    ),
)
