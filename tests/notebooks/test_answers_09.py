"""Numbers that notebook 09 asks for: each likely mistake is told apart from the right answer."""

import pytest

import rope_lab as lab
from rope_lab.grading.exercises import notebook_09

RIGHT = notebook_09.UNSEEN_SHAPE["right"]


def test_right_answers_rounded_to_two_digits_are_right():
    rounded = [float(f"{us:.2g}") for us in RIGHT]
    assert lab.check_answer(rounded, **notebook_09.UNSEEN_SHAPE)
    bounds = ["bytes", "Instructions", "programs", "bytes"]
    assert lab.check_choices(bounds, **notebook_09.WHICH_BOUND)


@pytest.mark.parametrize("words", notebook_09.UNSEEN_SHAPE["mistakes"])
def test_each_mistake_is_rejected_and_named(words):
    """Without T0 and without the table too, which the notebook teaches to count."""
    wrong = notebook_09.UNSEEN_SHAPE["mistakes"][words]
    answer = [right if one is None else one for one, right in zip(wrong, RIGHT, strict=True)]
    verdict = lab.check_answer(answer, **notebook_09.UNSEEN_SHAPE)
    assert not verdict and verdict.looks_like == words


def test_a_number_in_the_wrong_unit_is_by_far_too_small():
    verdict = lab.check_answer([us / 1000 for us in RIGHT], **notebook_09.UNSEEN_SHAPE)
    assert "too small, by far" in verdict.reason


@pytest.mark.parametrize("place", range(4))
def test_another_bound_is_rejected(place):
    for other in {"bytes", "instructions", "programs"} - {notebook_09.WHICH_BOUND["right"][place]}:
        answer = [*notebook_09.WHICH_BOUND["right"]]
        answer[place] = other
        verdict = lab.check_choices(answer, **notebook_09.WHICH_BOUND)
        assert f"in answer {place + 1} of 4: it is not {other}" in repr(verdict)
        assert verdict.because.startswith(f"its {other} take ")
