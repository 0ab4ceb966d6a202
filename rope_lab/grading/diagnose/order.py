"""The right elements with the wrong sign, in the wrong place of their row, or in wrong pairs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from .evidence import Evidence
from .guess import Guess, part, place, whole
from .seen import came_out


def sign(e: Evidence) -> Iterator[Guess]:
    """Of every element that is wrong. (`angles.py` has that of an angle, and of a sine.)"""
    yield whole("a sign: every element has the opposite sign", -e.expected)
    if e.close(e.got[e.wrong], -e.expected[e.wrong]):
        has_sign = e.expected != 0
        where = [name for name, here in e.places.items() if torch.equal(e.wrong, has_sign & here)]
        for name in where:
            yield part(f"a sign: what is wrong has the opposite sign, in {name}")
        if not where:
            yield place("a sign: what is wrong has the opposite sign")


def swapped(e: Evidence) -> Iterator[Guess]:
    """The two of a pair have changed places: the halves, or two neighbors."""
    for exchange, words in (
        (_halves_exchanged, "halves swapped{}: each half is where the other should be"),
        (_neighbors_exchanged, "neighbors swapped{}: each of the two is where the other should be"),
    ):
        order = exchange(e.rotary_dim)
        if 0 < len(order) <= e.expected.shape[-1]:
            there = ordered(e.expected, order)
            turns = torch.arange(there.shape[-1]) < len(order)
            yield whole(words.format(""), there)
            yield whole(words.format(", and a sign"), torch.where(turns, -there, there))


def permuted(e: Evidence) -> Iterator[Guess]:
    """Right numbers in a wrong order; and where elements are only to be put in order."""
    d2 = e.rotary_dim
    if d2 % 2 or d2 > e.expected.shape[-1] or came_out(e):
        return
    apart = torch.arange(d2).view(-1, 2).t().flatten()  # neighbors -> halves
    together = apart.argsort()
    floats = [x for x, argument in e.arguments if argument.holds == "floats"]
    for x in floats:
        for there, back in ((apart, together), (together, apart)):
            if x.shape == e.expected.shape and e.close(ordered(x, there), e.expected):
                yield whole("the order: the permutation goes the other way", ordered(x, back))
    yield whole(
        "the order: the right numbers, with halves where neighbors are asked for",
        ordered(e.expected, apart),
    )
    words = "the right numbers, with neighbors where halves are asked for"
    if e.spec.angles == "pairs":
        words = "the permutation once more, where its inverse is asked for"
    yield whole(f"the order: {words}", ordered(e.expected, together))
    for row in (e.expected, *floats):
        yield whole("the order: the last dimension runs backwards", row.flip(-1))


def moved(e: Evidence) -> Iterator[Guess]:
    """A matrix transposed, or a row shifted by one place."""
    is_rotation = e.has_angles and e.got_is(e.expected_with_angles(torch.neg))  # then it turns back
    if e.expected.dim() > 1 and not is_rotation:
        yield whole("transposed: rows and columns have changed places", e.expected.mT)
    if e.got.shape[-1] > 2 and e.close(e.got[..., :-1], e.expected[..., 1:]):
        yield whole("shifted: every element is one place too early")
    if e.got.shape[-1] > 2 and e.close(e.got[..., 1:], e.expected[..., :-1]):
        yield whole("shifted: every element is one place too late")


def pairing(e: Evidence) -> Iterator[Guess]:
    """The other of the two conventions, for the elements, their angles, or both."""
    d2 = e.rotary_dim
    if d2 % 2:
        return
    together = torch.arange(d2).view(2, -1).t().flatten()  # halves -> neighbors
    for there, back, asked in (
        (together, together.argsort(), "neighbors"),
        (together.argsort(), together, "halves"),
    ):
        words = "halves (i, i + d2/2), where neighbors (2i, 2i + 1) are asked for"
        if asked == "halves":
            words = "neighbors (2i, 2i + 1), where halves (i, i + d2/2) are asked for"
        words = f"the wrong pairing: it pairs {words}"
        if e.spec.angles == "pairs" and asked == "halves":  # as it pairs
            words = "the order: the permutation and its inverse have changed places"
        inputs = [_reordered(x, there, a.holds) for x, a in e.arguments]
        other = _reordered(e.spec(*inputs), back)
        yield whole(words, other)
        if other.shape[-2:] == (d2, d2):
            yield whole(words, _reordered(other.mT, back).mT)
        if e.halves_have_angles:
            for of_pair in _one_angle_for_both(asked):
                angles = [
                    of_pair(x) if a.holds == "angles" else y
                    for (x, a), y in zip(e.arguments, inputs, strict=True)
                ]
                yield whole(words, _reordered(e.spec(*angles), back))
            yield whole(
                "the wrong angle: the table's angles are in another order than the elements",
                e.expected_with_angles(lambda x, there=there: _reordered(x, there)),
            )


def _one_angle_for_both(asked: str):
    """Tables with one angle for both of a wrong pair."""

    def both(angle: Tensor) -> Tensor:
        if asked == "halves":
            return torch.cat((angle, angle), -1)
        return angle.repeat_interleave(2, -1)

    return (lambda x: both(x[..., : x.shape[-1] // 2])), (lambda x: both(x[..., ::2]))


def overwritten_members(e: Evidence) -> Iterator[Guess]:
    """`x1 = x1 * c1 - x2 * s1`, and then x2 * c2 + x1 * s2 with the new x1; or the other way."""
    x = e.inputs[0]
    if not e.has_angles or not isinstance(x, Tensor) or x.shape != e.expected.shape:
        return
    if e.twice:
        return  # what was seen: it was overwritten in memory
    first, second, even, odd = e.places
    for one, other in (*permutations((first, second)), *permutations((even, odd))):
        here = e.places[one]
        of_the_new = e.expected_with_input(0, torch.where(here, e.expected, x))
        words = f"overwritten too early: {other} is computed from the results of {one}"
        yield part(f"{words}; keep what was loaded", torch.where(here, e.expected, of_the_new))


def members(e: Evidence) -> Iterator[Guess]:
    """The two of a pair: exchanged when they were loaded, or one of them its own partner."""
    d2 = e.rotary_dim
    if d2 % 2 or not e.has_angles:
        return
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds != "floats" or x.shape != e.expected.shape:
            continue
        for order in (_halves_exchanged(d2), _neighbors_exchanged(d2)):
            inputs = [*e.inputs]
            inputs[number] = ordered(x, order)
            yield whole(
                "the wrong members: the two of a pair are exchanged when they are loaded",
                e.spec(*inputs),
            )
            of_itself = replace(e, inputs=inputs).sines
            for sines in (of_itself, -of_itself):
                for where, mixed in e.with_sines_in_a_part(sines):
                    yield part(f"the wrong partner: in {where} each element is its own", mixed)


def _halves_exchanged(d2: int) -> Tensor:
    return torch.arange(d2).roll(d2 // 2)


def _neighbors_exchanged(d2: int) -> Tensor:
    """No places where an odd one has no neighbor."""
    return torch.arange(d2 if d2 % 2 == 0 else 0).view(-1, 2).flip(-1).flatten()


def ordered(x: Tensor, order: Tensor) -> Tensor:
    """Each row's first elements in this order, and its tail as it is."""
    return torch.cat((x[..., order], x[..., len(order) :]), -1)


def _reordered(x: Tensor, order: Tensor, holds: str = "floats") -> Tensor:
    """The same of what has elements or angles in its rows."""
    if holds in ("positions", "number") or x.shape[-1] < len(order):
        return x
    return ordered(x, order)


RULES = (sign, swapped, permuted, moved, pairing, overwritten_members, members)
