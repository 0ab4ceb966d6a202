"""`make test` runs a slice of the largest tests, and `make test-all` runs them whole."""

from types import SimpleNamespace

import pytest

import conftest


def items(name, count):
    return [SimpleNamespace(nodeid=f"{name}[{i}]") for i in range(count)]


def test_small_tests_are_not_sliced_and_the_order_stays():
    large, small = items("a.py::test_large", 121), items("a.py::test_small", conftest.SMALL)
    alone = [SimpleNamespace(nodeid="b.py::test_alone")]
    kept = conftest.slices([*large[:50], *small, *alone, *large[50:]])
    assert [item for item in kept if item in small] == small and alone[0] in kept
    assert [item for item in kept if item in large] == conftest.slices(large)


@pytest.mark.parametrize("count", (3, 4, 6, 7, 10, 121))
def test_of_larger_ones_the_name_decides_which_cases_run(count):
    step = 2 if count <= conftest.LARGE else conftest.ONE_IN
    seen = set()
    for name in map("test_{0}.py::test".format, range(200)):
        cases = items(name, count)
        kept = conftest.slices(cases)
        first = cases.index(kept[0])
        assert kept == cases[first::step] and first < step
        assert conftest.slice_of(f"tests/room/{name}", cases) == kept, "the room decides"
        seen.update(map(cases.index, kept))
    assert seen == set(range(count)), "a case that no name would choose"


def test_functions_of_the_same_name_in_two_files_are_two_tests():
    one, other = items("a.py::test_x", conftest.SMALL), items("b.py::test_x", conftest.SMALL)
    assert conftest.slices(one + other) == one + other
