"""Choices that notebook 09 asks for: each likely mistake is told apart from the right answer."""

import pytest

import rope_lab as lab
from rope_lab.grading.exercises import notebook_09


def test_the_right_bounds_are_right():
    bounds = ["bytes", "Instructions", "programs", "bytes"]
    assert lab.check_choices(bounds, **notebook_09.WHICH_BOUND)


@pytest.mark.parametrize("place", range(4))
def test_another_bound_is_rejected(place):
    for other in {"bytes", "instructions", "programs"} - {notebook_09.WHICH_BOUND["right"][place]}:
        answer = [*notebook_09.WHICH_BOUND["right"]]
        answer[place] = other
        verdict = lab.check_choices(answer, **notebook_09.WHICH_BOUND)
        assert f"in answer {place + 1} of 4: it is not {other}" in repr(verdict)
        assert verdict.because.startswith(f"its {other} take ")
