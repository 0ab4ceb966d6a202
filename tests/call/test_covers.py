"""`pairwise.cover` and `all_pairs`: what they leave out of a product, and what never."""

from itertools import product

import pytest

import pairwise
from pairwise import all_pairs, cover, each_pair, pairs_between, pairs_of

AXES = {"a": ("0", "1", "2"), "b": ("x", "y"), "c": ("p", "q", "r", "s"), "d": (2, 3)}


@pytest.fixture(autouse=True)
def without_the_option(monkeypatch):
    monkeypatch.setattr(pairwise, "EVERY", False)


def is_legal(case):
    return (case.get("a"), case.get("b")) != ("2", "y")


def cases_of(mark):
    names, parameters = mark.args
    return [dict(zip(names.split(","), parameter.values, strict=True)) for parameter in parameters]


def test_every_legal_pair_and_triple_occurs_and_no_other(monkeypatch):
    cases = cases_of(cover(is_legal, triples=[("b", "c", "d")], **AXES))
    assert all(is_legal(case) for case in cases) and len(cases) < 24
    found = {pair for case in cases for pair in pairs_of(case)}
    assert set(pairs_between(AXES)) - found == {(("a", "2"), ("b", "y"))}
    triples = {(case["b"], case["c"], case["d"]) for case in cases}
    assert triples == set(product(AXES["b"], AXES["c"], AXES["d"]))
    assert len(all_pairs(AXES, is_legal)) < 16
    monkeypatch.setattr(pairwise, "EVERY", True)
    assert len(cases_of(cover(is_legal, **AXES))) == (3 * 2 - 1) * 4 * 2


def test_a_marked_value_keeps_all_its_combinations_and_its_mark():
    axes = AXES | {"a": ("0", "1", pytest.param("2", marks=pytest.mark.gpu, id="two"))}
    mark = cover(**axes)
    marked = [case for case in mark.args[1] if case.marks]
    assert len(marked) == 2 * 4 * 2 and {case.values[0] for case in marked} == {"2"}
    assert marked[0].id == "two-x-p-2"
    assert len({case.id for case in mark.args[1]}) == len(mark.args[1])


def test_decorators_are_axes_too():
    @each_pair
    @pytest.mark.parametrize("a", AXES["a"])
    @pytest.mark.parametrize("b,c", [("x", 1), ("y", 2)], ids=("one", "two"))
    @pytest.mark.parametrize("d", AXES["c"], ids=str.upper)
    def test(a, b, c, d):
        pass

    (mark,) = test.pytestmark
    cases = cases_of(mark)
    assert set(cases[0]) == {"a", "b", "c", "d"} and {case["c"] for case in cases} == {1, 2}
    pairs = {pair for case in cases for pair in pairs_of({k: case[k] for k in "abd"})}
    assert pairs == set(pairs_between({"a": AXES["a"], "b": ("x", "y"), "d": AXES["c"]}))
    assert len(cases) < 24 and mark.args[1][0].id.split("-")[1] in ("one", "two")
