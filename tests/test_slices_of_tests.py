"""`make test` runs a slice of the largest tests, and `make test-all` runs them whole."""

from types import SimpleNamespace

import conftest


def items(name, count):
    return [SimpleNamespace(nodeid=f"{name}[{i}]") for i in range(count)]


def test_large_tests_are_sliced_and_small_ones_are_not():
    large, small = items("a.py::test_large", 121), items("a.py::test_small", conftest.LARGE)
    alone = [SimpleNamespace(nodeid="b.py::test_alone")]
    kept = conftest.slices([*large[:50], *small, *alone, *large[50:]])
    assert [item for item in kept if item in small] == small and alone[0] in kept
    assert [item for item in kept if item in large] == large[:: conftest.ONE_IN]


def test_functions_of_the_same_name_in_two_files_are_two_tests():
    one, other = items("a.py::test_x", conftest.LARGE), items("b.py::test_x", conftest.LARGE)
    assert conftest.slices(one + other) == one + other
