"""Few cases that hold every pair of values of any two axes, out of far too many combinations.

A case is a dict: axis -> value. `is_legal(case)` is asked about parts of cases too: it objects to
what a part says, never to what the part leaves open.
"""

import random
from itertools import combinations, product

import pytest

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
    combination occurs.
    """
    named = {
        axis: {str(name): x for name, x in xs.items()}
        if isinstance(xs, dict)
        else {_name(x): x for x in xs}
        for axis, xs in axes.items()
    }

    def of(case):
        return {axis: named[axis][name] for axis, name in case.items()}

    def named_is_legal(case):
        return is_legal(of(case))

    if EVERY:
        cases = cases_of_all(named, named_is_legal)
    else:
        cases = all_pairs(named, named_is_legal, triples=triples)
    given, ids = [[*of(x).values()] for x in cases], ["-".join(x.values()) for x in cases]
    return pytest.mark.parametrize(",".join(axes), given, ids=ids)


def slow_but(values, *by_day):
    """Parameters of a test of which all but these are slow: what they show, these show by day."""
    values, by_day = [*values], {*by_day}
    assert by_day <= {*values}
    return [x if x in by_day else pytest.param(x, marks=pytest.mark.slow) for x in values]


def _name(value):
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
