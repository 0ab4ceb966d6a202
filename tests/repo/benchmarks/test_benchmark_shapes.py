"""The shapes are those that they say they are."""

from itertools import pairwise

import pytest

from benchmarks.case import Case
from benchmarks.tables import BENCHMARKS
from benchmarks.workload import Workload


def test_no_two_cases_of_a_benchmark_have_the_same_name():
    for benchmark in BENCHMARKS:
        labels = [case.label for group in benchmark.groups for case in group.cases]
        assert len({*labels}) == len(labels)


@pytest.mark.parametrize("count", [1, 50])
def test_packed_sequences_are_as_many_as_said_and_none_is_empty(count):
    case = Case(5000, 1, 1, 2, tensor_format="thd", sequences=count)
    cuts = Workload(case, "cpu").cu_seqlens.tolist()
    assert len(cuts) == count + 1 and (cuts[0], cuts[-1]) == (0, 5000)
    assert all(start < end for start, end in pairwise(cuts))
