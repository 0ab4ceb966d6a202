"""Few cases that hold every pair of values of any two axes, out of far too many combinations.

A case is a dict: axis -> value. `is_legal(case)` is asked about parts of cases too: it objects to
what a part says, never to what the part leaves open.
"""

import random
from collections import Counter
from itertools import combinations, product

TRIES = 4  # candidates for a case, of which the best is taken


def pairs_of(case):
    """Every ((axis, value), (axis, value)) in a case, the axes in the order of the alphabet."""
    return combinations(sorted(case.items(), key=lambda item: item[0]), 2)


def pairs_between(axes):
    """Every pair of values of two axes, possible or not."""
    for (one, ones), (other, others) in combinations(sorted(axes.items()), 2):
        for value in ones:
            yield from (((one, value), (other, another)) for another in others)


def all_pairs(axes, is_legal, seed=0):
    """Cases in which every legal pair occurs, greedily few; the first ones hold the most pairs."""
    rng = random.Random(seed)
    missing = {pair: None for pair in pairs_between(axes) if is_legal(dict(pair))}  # in this order
    cases = []
    while missing:
        left = list(missing)
        starts = [left[int(rng.random() * len(left))] for _ in range(TRIES)]
        candidates = [_grown(dict(pair), axes, is_legal, missing, rng) for pair in starts]
        best = max(candidates, key=lambda case: sum(pair in missing for pair in pairs_of(case)))
        for pair in pairs_of(best):
            missing.pop(pair, None)
        cases.append(best)
    return cases


def cover(*lists):
    """Tuples of an argument from each list; of three lists every two arguments meet in one."""
    if len(lists) < 3:
        return [*product(*lists)]
    return [tuple(case.values()) for case in all_pairs(dict(enumerate(lists)), lambda case: True)]


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
