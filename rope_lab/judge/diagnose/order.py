"""The right elements with the wrong sign or factor, or in wrong pairs."""

from collections.abc import Iterator
from itertools import permutations

import torch
from torch import Tensor

from .evidence import Evidence, Guess, fitted, part, whole


def sign(e: Evidence) -> Iterator[Guess]:
    """Of every element that is wrong. (`angles.py` has that of an angle, and of a sine.)"""
    yield whole("a sign: every element has the opposite sign", -e.expected)
    if e.close(e.got[e.wrong], -e.expected[e.wrong]):
        has_sign = e.expected != 0
        for name, here in e.places.items():
            if torch.equal(e.wrong, has_sign & here):
                yield part(f"a sign: what is wrong has the opposite sign, in {name}")


def factor(e: Evidence) -> Iterator[Guess]:
    """The one by which what came out is closest to what is expected."""
    got, expected = e.got.double(), e.expected.double()
    times = float((got * expected).sum() / (expected * expected).sum())
    if abs(times) > 1e-2:
        words = f"a factor: everything is {times:.3g} times what is expected"
        yield fitted(words, times * expected)


def swapped(e: Evidence) -> Iterator[Guess]:
    """The two of a pair have changed places: the halves, or two neighbors."""
    d2 = min(e.rotary_dim, e.expected.shape[-1])
    halves = torch.arange(d2).roll(d2 // 2)
    neighbors = torch.arange(d2 - d2 % 2).view(-1, 2).flip(-1).flatten()
    for order, words in (
        (halves, "halves swapped{}: each half is where the other should be"),
        (neighbors, "neighbors swapped{}: each of the two is where the other should be"),
    ):
        there = _ordered(e.expected, order)
        turns = torch.arange(there.shape[-1]) < len(order)
        yield whole(words.format(""), there)
        yield whole(words.format(", and a sign"), torch.where(turns, -there, there))


def pairing(e: Evidence) -> Iterator[Guess]:
    """The other of the two conventions, for the elements, their angles, or both."""
    d2 = e.rotary_dim
    if d2 % 2:
        return
    together = torch.arange(d2).view(2, -1).t().flatten()  # halves -> neighbors
    halves, neighbors = "halves (i, i + d2/2)", "neighbors (2i, 2i + 1)"
    for there, back, paired, asked in (
        (together, together.argsort(), halves, neighbors),
        (together.argsort(), together, neighbors, halves),
    ):
        words = f"the wrong pairing: it pairs {paired}, where {asked} are asked for"
        inputs = [_ordered(x, there) for x in e.inputs]
        yield whole(words, _ordered(e.spec(*inputs), back))
        inputs = [x if a.holds == "angles" else _ordered(x, there) for x, a in e.arguments]
        yield whole(words, _ordered(e.spec(*inputs), back))


def overwritten_members(e: Evidence) -> Iterator[Guess]:
    """`x1 = x1 * c1 - x2 * s1`, and then x2 * c2 + x1 * s2 with the new x1; or the other way."""
    x = e.inputs[0]
    if x.shape != e.expected.shape or not e.sines.any():
        return
    if e.stored_twice or e.reread:
        return  # what was seen: it was overwritten in memory
    first, second, even, odd = e.places
    for one, other in (*permutations((first, second)), *permutations((even, odd))):
        here = e.places[one]
        of_the_new = e.expected_with_input(0, torch.where(here, e.expected, x))
        words = f"overwritten too early: {other} is computed from the results of {one}"
        yield part(f"{words}; keep what was loaded", torch.where(here, e.expected, of_the_new))


def one_half(e: Evidence) -> Iterator[Guess]:
    """Of what is loaded, for both."""
    for half, other, number in (("first", "second", 0), ("second", "first", 1)):
        inputs = [x if a.holds == "angles" else _half_twice(x, number, e) for x, a in e.arguments]
        words = f"the {half} half is taken for both: where is the {other} one loaded?"
        yield whole(words, e.spec(*inputs))


def _half_twice(x: Tensor, number: int, e: Evidence) -> Tensor:
    """With one half of the elements that turn in place of both."""
    half = min(e.rotary_dim, x.shape[-1]) // 2
    taken = x[..., number * half : (number + 1) * half]
    return torch.cat((taken, taken, x[..., 2 * half :]), -1)


def members_of_a_pair(e: Evidence) -> Iterator[Guess]:
    """The element where its partner belongs, or the two exchanged."""
    pairs = e.pairs
    if pairs is None or not pairs.has_angles:
        return
    x, partner = pairs.elements, pairs.partners
    itself, exchanged = pairs.of(x, x), pairs.of(partner, x)
    words = "the partner is missing: the sine multiplies the element itself"
    yield whole(words, itself)
    yield whole("the pair's members have changed places: the cosine takes the partner", exchanged)
    for where, here in e.places.items():
        yield whole(words, torch.where(here, 2 * pairs.own * x - itself, itself))  # and no sign
        yield part(f"{words}, in {where}", torch.where(here, itself, pairs.result))
        have_changed = f"the pair's members have changed places in {where}"
        result = torch.where(here, exchanged, pairs.result)
        yield part(f"{have_changed}: the cosine takes the partner", result)
        result = torch.where(here, x, pairs.result)
        yield part(f"unchanged in {where}: it comes out as it came", result)


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    """The first elements or angles of each row in this order, where there are as many."""
    return x if x.shape[-1] < len(order) else torch.cat((x[..., order], x[..., len(order) :]), -1)


RULES = (sign, factor, swapped, pairing, overwritten_members, one_half, members_of_a_pair)
