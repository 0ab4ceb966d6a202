"""The limit that each row of the benchmark has of its own.

What a row moves is held against the tensors of its call in `test_device_times.py`.
"""

import pytest

from benchmarks.case import FP32, Row
from benchmarks.tables import BENCHMARKS, ROWS

PARTIALS = 132 * 12 * 128 * 4 * 2  # each program's, written and read


def test_a_norms_backward_has_one_and_a_half_copies_two_gradients_and_partial_sums():
    row = Row("qk_norm_rope", FP32, "bshd", s=4096, b=2, backward=True)
    rows = 8192 * 40 * 128 * 2 * 3  # rows and gradients are read, gradients are written
    others = 4096 * 2 * 512 + 2 * 2 * 256 + PARTIALS
    assert sum(row.moved.values()) == rows + others
    assert row.own_limit == pytest.approx(rows / (rows + others))
    assert 0.97 < row.own_limit < 0.98


def test_each_row_has_a_name_of_its_own_and_a_limit_below_a_copy():
    labels = [row.label for row in ROWS]
    assert len(set(labels)) == len(labels)
    assert all(str(row.table) in row.label for row in ROWS)
    assert all(0.8 < row.own_limit < 1 for row in ROWS)


SETS = {one.name: one for one in BENCHMARKS if one.has_own_limits}


def test_every_row_is_in_one_of_the_sets():
    measured = [row for one in SETS.values() for group in one.groups for row in group.cases]
    assert sorted(row.label for row in measured) == sorted(row.label for row in ROWS)
