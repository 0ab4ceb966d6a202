"""Few cases that hold every pair of values of any two axes, out of far too many combinations.

A case is a dict: axis -> value. `is_legal(case)` is asked about parts of cases too: it objects to
what a part says, never to what the part leaves open.
"""

import random
from collections import Counter
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
    values = {axis: _named(values) for axis, values in axes.items()}
    names = {axis: tuple(of_axis) for axis, of_axis in values.items()}
    marks = {
        (axis, name): value.marks
        for axis, of_axis in values.items()
        for name, value in of_axis.items()
        if value.marks
    }

    def valued(case):
        return {axis: values[axis][name].values[0] for axis, name in case.items()}

    def named_is_legal(case):
        return is_legal(valued(case))

    cases = every = cases_of_all(names, named_is_legal)
    if not EVERY:
        plain = {axis: [x for x in xs if (axis, x) not in marks] for axis, xs in names.items()}
        cases = all_pairs(plain, named_is_legal, triples=triples)
        cases += [case for case in every if case.items() & marks.keys()]
    return pytest.mark.parametrize(
        tuple(axes),
        [
            pytest.param(
                *valued(case).values(),
                id="-".join(case.values()),
                marks=[mark for item in case.items() for mark in marks.get(item, ())],
            )
            for case in cases
        ],
    )


def _named(values):
    """name -> pytest.param"""
    if not isinstance(values, dict):
        values = {_name(value): value for value in values}
    params = {str(name): value for name, value in values.items()}
    return {
        name: value if isinstance(value, ParameterSet) else pytest.param(value)
        for name, value in params.items()
    }


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


def with_axis(cases, axis, values, is_legal, each):
    """Every case again with `each` values of one more axis: those that bring the rarest pairs."""
    times, longer = Counter(), []
    for case in cases:
        options = [{**case, axis: value} for value in values]
        options = [option for option in options if is_legal(option)]
        for _ in range(min(each, len(options))):
            best = max(options, key=lambda case: sum(0.1 ** times[pair] for pair in pairs_of(case)))
            options.remove(best)
            times.update(pairs_of(best))
            longer.append(best)
    return longer


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
