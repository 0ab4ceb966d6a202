"""Few cases that hold every pair of values of any two axes, out of far too many combinations.

A case is a dict: axis -> value. `is_legal(case)` is asked about parts of cases too: it objects to
what a part says, never to what the part leaves open.
"""

import random
from itertools import combinations, product

import pytest

ParameterSet = type(pytest.param())

TRIES = 4  # candidates for a case, of which the best is taken
EVERY = False  # the full products instead: pytest's `--every`


def pairs_of(case):
    """Every ((axis, value), (axis, value)) in a case, the axes in the order of the alphabet."""
    return combinations(sorted(case.items(), key=lambda item: item[0]), 2)


def pairs_between(axes):
    """Every pair of values of two axes, possible or not."""
    for (one, ones), (other, others) in combinations(sorted(axes.items()), 2):
        for value in ones:
            yield from (((one, value), (other, another)) for another in others)


def cover(is_legal=lambda case: True, triples=(), **axes):
    """Parametrize a test by cases that hold every legal pair of values; by all with `--every`.

    The values of an axis are a sequence or, with names, a dict. Of three axes in `triples` every
    combination occurs. Values with marks (`gpu`) occur in every combination, too.
    """
    named = {
        axis: dict(values) if isinstance(values, dict) else {_name(x): x for x in values}
        for axis, values in axes.items()
    }
    params = {axis: {str(x): _param(value) for x, value in named[axis].items()} for axis in named}
    return _parametrized(params, is_legal, triples)


def each_pair(function):
    """The same for a test that `parametrize` has given its axes, one a decorator."""
    marks = [mark for mark in function.pytestmark if mark.name == "parametrize"]
    function.pytestmark = [mark for mark in function.pytestmark if mark not in marks]
    axes = {}
    for names, values, *_ in (mark.args for mark in marks):
        several = not isinstance(names, str) or "," in names
        names = names if isinstance(names, str) else ",".join(names)
        axes[names] = [_param(value, several) for value in values]
    for names, mark in zip(axes, marks, strict=True):
        axes[names] = dict(zip(_ids(mark, axes[names]), axes[names], strict=True))
        assert len(axes[names]) == len(mark.args[1]), f"two values have one name: {names}"
    return _parametrized(dict(reversed(axes.items())))(function)


def _parametrized(params, is_legal=lambda case: True, triples=()):
    """From axis -> name -> pytest.param; an axis may give several arguments, by their names."""
    names = {axis: tuple(of_axis) for axis, of_axis in params.items()}
    marked = {(x, name) for x, of_axis in params.items() for name in of_axis if of_axis[name].marks}

    def values(case):
        return [value for axis, name in case.items() for value in params[axis][name].values]

    def named_is_legal(case):
        return is_legal(dict(zip(case, values(case), strict=False)))

    cases = every = cases_of_all(names, named_is_legal)
    if not EVERY:
        plain = {axis: [x for x in xs if (axis, x) not in marked] for axis, xs in names.items()}
        cases = all_pairs(plain, named_is_legal, triples=triples)
        cases += [case for case in every if case.items() & marked]
    return pytest.mark.parametrize(
        ",".join(params),
        [
            pytest.param(
                *values(case),
                id="-".join(case.values()),
                marks=[mark for axis, name in case.items() for mark in params[axis][name].marks],
            )
            for case in cases
        ],
    )


def _param(value, several=False):
    if isinstance(value, ParameterSet):
        return value
    return pytest.param(*value) if several else pytest.param(value)


def _ids(mark, params):
    ids = mark.kwargs.get("ids")
    if ids is None or callable(ids):
        return ["-".join(str((ids or _name)(x)) for x in param.values) for param in params]
    return list(map(str, ids))


def _name(value):
    if isinstance(value, ParameterSet):
        return value.id or _name(value.values[0])
    return getattr(value, "__name__", None) or str(value).removeprefix("torch.")


def cases_of_all(axes, is_legal):
    """The full product, but for what is not legal."""
    cases = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    return [case for case in cases if is_legal(case)]


def all_pairs(axes, is_legal, seed=0, triples=()):
    """Cases in which every legal pair occurs, greedily few; the first ones hold the most pairs."""
    rng = random.Random(seed)
    missing = {pair: None for pair in pairs_between(axes) if is_legal(dict(pair))}  # in this order
    cases = []
    for triple in triples:
        for part in cases_of_all({axis: axes[axis] for axis in triple}, is_legal):
            if not any(part.items() <= case.items() for case in cases):
                cases.append(_grown(part, axes, is_legal, missing, rng))
                for pair in pairs_of(cases[-1]):
                    missing.pop(pair, None)
    while missing:
        left = list(missing)
        starts = [left[int(rng.random() * len(left))] for _ in range(TRIES)]
        candidates = [_grown(dict(pair), axes, is_legal, missing, rng) for pair in starts]
        best = max(candidates, key=lambda case: sum(pair in missing for pair in pairs_of(case)))
        for pair in pairs_of(best):
            missing.pop(pair, None)
        cases.append(best)
    return cases


def first_of(cases, most=12):
    """Those that hold the most pairs, where a case takes seconds; all with `--every`."""
    return cases if EVERY else cases[:most]


def _grown(case, axes, is_legal, missing, rng):
    """Complete a case, one axis after the other, by the values that add the most missing pairs."""
    open_axes = [axis for axis in axes if axis not in case]
    for axis in sorted(open_axes, key=lambda _: rng.random()):
        options = [value for value in axes[axis] if is_legal({**case, axis: value})]
        assert options, f"no value of {axis} goes with {case}"

        def gain(value, axis=axis):
            new = (axis, value)
            return sum(tuple(sorted((new, old))) in missing for old in case.items()), rng.random()

        case[axis] = max(options, key=gain)
    return {axis: case[axis] for axis in axes}
