"""Exercises: a kind stub, a hint, and a solution of the same name with the same check.

What stubs and solutions print is stored in the notebooks, and nbval holds it.
`test_answers_in_notebooks.py` has wrong answers judged.
"""

import re

import pytest
import torch

import rope_lab as lab
from exercise_form import CHECKS, NUMBERS, exercises_in
from notebook_form import load, names_of_detours
from wrong_answers import read


@pytest.mark.parametrize("number", NUMBERS)
def test_form_of_exercises(number):
    exercises = exercises_in(number)
    found = [f"{check.__name__}: {fault}" for check in CHECKS for fault in check(exercises)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("name", names_of_detours())
def test_a_detour_has_no_exercise(name):
    assert not [cell.id for cell in load(name).code if "-ex" in cell.id]


NO_ROWS = {  # a row, and words of the error
    "a text that is gone": (
        "00-ex1 | WRONG | x\n- minus the angle\n+ the angle\n",
        "'minus the angle' is not in the solution",
    ),
    "no exercise": ("00-ex9 | mask | i < n\n- n\n+ 2\n", "no exercise has the cell 00-ex9"),
    "no state": ("00-ex1 | Wrong | x\n- n\n+ 2\n", "'Wrong' is not one of"),
    "no kind": ("00-ex1 | i < n\n- n\n+ 2\n", "not a row"),
    "no change": ("00-ex1 | mask | i < n\n", "not a row"),
    "nothing in its place": ("00-ex1 | mask | i < n\n- n\n+ 2\n- i\n", "not a row"),
    "a line of no sign": ("00-ex1 | mask | i < n\n- n\n+ 2\n3\n", "not a row"),
}


@pytest.mark.parametrize("row, told", NO_ROWS.values(), ids=NO_ROWS)
def test_what_is_no_wrong_answer_is_refused(row, told):
    """Else an answer would not be judged, or the solution itself in its place."""
    with pytest.raises(ValueError, match=re.escape(told)):
        read(row).made_in(exercises_in("00").solutions["00-ex1"].source)


# numbers that a reader predicts


MEASURED_US = 49.49814610452644
ANSWERS = (  # the answer, the right one, and what is said
    (None, 3, "NOT YET: put your answer in place of None"),
    ([8, None], [8, 2], "NOT YET: put your answer in place of each None"),
    (16384, 16384, "RIGHT: 16 384 bytes"),
    (torch.tensor([29]), 29, "RIGHT: 29 bytes"),
    (torch.tensor(29.0).numpy()[()], 29, "RIGHT: 29 bytes"),
    (torch.tensor(MEASURED_US).double(), 49.498146057128906, "RIGHT: 49.5 bytes"),
    (MEASURED_US, 80, "WRONG: 49.5 is too small"),
    (7.00000001, 7, "WRONG: 7.00000001 is too large, but not far off"),
    (990, 1000, "WRONG: 990 is too small, but not far off"),
    (4000, 1000, "WRONG: 4 000 is too large, by far"),
    ([8, 4], [8, 2], "WRONG in answer 2 of 2: 4 is too large"),
    ([8], [8, 2], "WRONG: expected a list of 2 answers, got 1"),
    (8, [8, 2], "WRONG: expected a list of 2 answers, got 1"),
    (torch.tensor([28, 29]), 29, "WRONG: expected a number, got "),
    (True, 1, "WRONG: expected a number, got True"),
)


@pytest.mark.parametrize("answer, right, said", ANSWERS, ids=str)
def test_an_answer(answer, right, said):
    verdict = lab.check_answer(answer, right, unit="bytes")
    assert repr(verdict).startswith(said)
    assert bool(verdict) is said.startswith("RIGHT")


def test_an_answer_may_be_a_little_off_where_that_is_allowed():
    assert lab.check_answer(990, 1000, tolerance=0.01)
    assert not lab.check_answer(989, 1000, tolerance=0.01)
    several = lab.check_answer([1064.3456, 0.123456, 7], [1064, 0.12, 7], tolerance=0.1)
    assert repr(several) == "RIGHT: 1 064, 0.1235, 7"  # as many digits as a reader needs


def test_a_verdict_does_not_give_the_answer_away():
    for answer in (None, 7, "x", [1, 2], True):
        assert "12345" not in repr(lab.check_answer(answer, 12345))
