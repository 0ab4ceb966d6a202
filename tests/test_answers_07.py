"""Notebook 07's predictions: five mistakes that readers make in each, and what they are told."""

import ast

import pytest

import rope_lab as lab
from test_exercises import cell, solutions

WRONG = [
    # 1: which argument is to blame
    (1, ["none", "row_stride", "num_warps", "t"], "answer 1 of 4: it is not none"),  # in bytes
    (1, ["row_stride", "row_stride", "num_warps", "t"], "answer 1 of 4: it is not row_stride"),
    (1, ["n", "t", "num_warps", "t"], "answer 2 of 4: it is not t"),  # 8 elements are 16 bytes
    (1, ["n", "row_stride", "n", "t"], "answer 3 of 4: it is not n"),
    (1, ["n", "row_stride", "num_warps", "row_stride"], "answer 4 of 4: it is not row_stride"),
    # 2: occupancy
    (2, [10, 5, 32], "answer 1 of 3: 10 is too large"),  # without rounding
    (2, [16, 5, 32], "answer 1 of 3: 16 is too large"),  # warps for programs
    (2, [8, 12, 32], "answer 2 of 3: 12 is too large"),  # registers alone
    (2, [8, 6, 32], "answer 2 of 3: 6 is too large"),  # rounded up
    (2, [8, 5, 64], "answer 3 of 3: 64 is too large"),  # without the limit of 32
    # 3: how wide
    (3, [16, 2, 4, 8], "answer 1 of 4: 16 is too large"),  # by the address alone
    (3, [4, 2, 4, 8], "answer 1 of 4: 4 is too small"),  # elements for bytes
    (3, [8, 8, 4, 8], "answer 2 of 4: 8 is too large"),  # warps forgotten
    (3, [8, 2, 16, 8], "answer 3 of 4: 16 is too large"),
    (3, [8, 2, 4, 4], "answer 4 of 4: 4 is too small"),  # like bf16
    # 5: one of three spills
    (5, "a", "it is not a"),  # fp32 takes twice the registers
    (5, "c", "it is not c"),  # most rows and widest rows
    (5, "a, b", "it is not a, b"),
    (5, 2, "a text is wanted"),
    (5, ["b"], "a text is wanted"),
]


def right_answer(exercise: int):
    """What the first line of the worked solution assigns."""
    source = cell(solutions("07"), f"-ex{exercise}").source
    return ast.literal_eval(ast.parse(source).body[0].value)


@pytest.mark.parametrize("exercise, answer, told", WRONG, ids=str)
def test_a_wrong_prediction_is_told_where_it_is_wrong(exercise, answer, told):
    verdict = lab.check_answer(answer, right_answer(exercise))
    assert not verdict
    assert told in repr(verdict)
