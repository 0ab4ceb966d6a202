"""Guesses at a wrong angle: another one of the table, or another function of it.

Without angles, these guesses equal the expected result, and so none of them holds.
"""

from collections.abc import Callable, Iterator
from itertools import product

import torch
from torch import Tensor

from ..spec import MANY
from .evidence import Evidence, Guess, part, parts, whole


def minus(e: Evidence) -> Iterator[Guess]:
    """The sign of every angle."""
    words = "a sign: it rotates by minus the angle"
    if any(name.startswith("grad") for name in e.spec.names):
        words = "a sign: it is the gradient for minus the angles; every sine has the wrong sign"
    yield whole(words, e.expected_with_angles(torch.neg))


def of_the_table(e: Evidence) -> Iterator[Guess]:
    """One half's angles for both, or each half's for itself."""
    if not e.halves_have_angles:
        return
    by_first, by_second = (e.expected_with_angles(_of_half(number)) for number in (0, -1))
    yield whole("the wrong angle: the second half takes the first half's angle", by_first)
    yield whole("the wrong angle: the first half takes the second half's angle", by_second)
    own = torch.where(e.places["the first half"], by_first, by_second)
    yield part("the wrong angle: each half takes its own, where both should take the same", own)


def _of_half(number: int) -> Callable[[Tensor], Tensor]:
    """Both halves of a table with the angles of one."""
    return lambda x: torch.cat(2 * (x.chunk(2, -1)[number],), -1)


def sine_of_a_part(e: Evidence) -> Iterator[Guess]:
    """The sign of the sine in a part of each row."""
    yield from parts(e, "a sign: that of the sine in ", e.cosines - e.sines, e.cosines + e.sines)


def of_the_partner(e: Evidence) -> Iterator[Guess]:
    """The sine or the cosine of the other's angle, if the angles of a pair may differ."""
    if not e.halves_have_angles:
        return

    def swap(x: Tensor) -> Tensor:
        return x.roll(x.shape[-1] // 2, -1)

    cosines, sines, swapped = e.cosines, e.sines, e.sine_part(swap)
    words = "the wrong sine: each half takes the sine that the other should take"
    yield whole(words, cosines + swapped)
    words = "a sign and the wrong sine: the transposed map instead of the map itself"
    if any(name.startswith("grad") for name in e.spec.names):
        words = "a sign and the wrong sine: the map itself instead of its transpose"
    yield whole(words, cosines - swapped)
    of_the_other = e.cosine_part(swap)
    words = "the wrong cosine: each half takes the cosine of the other's angle"
    yield whole(words, of_the_other + sines)
    words = "the wrong cosine: that of the other half's angle, in "
    yield from parts(e, words, of_the_other + sines, cosines + sines)


def other_function(e: Evidence) -> Iterator[Guess]:
    """A cosine where a sine belongs: the sine of the angle plus a quarter turn."""
    with_cosine = e.sine_part(lambda x: x + torch.pi / 2)
    words = "the wrong function: a cosine for the sine, in "
    yield whole(f"{words}every element", e.cosines + with_cosine)
    yield from parts(e, words, e.cosines + with_cosine, e.cosines + e.sines)


def exchanged_functions(e: Evidence) -> Iterator[Guess]:
    """The sine and the cosine exchanged, as for pi / 2 minus the angle."""
    words = "the wrong function: sine and cosine have changed places"
    yield whole(words, e.expected_with_angles(lambda x: torch.pi / 2 - x))
    with_sine = e.cosine_part(lambda x: x - torch.pi / 2)
    words = "the wrong function: a sine for the cosine, in "
    yield whole(f"{words}every element", with_sine + e.sines)
    yield from parts(e, words, with_sine + e.sines, e.cosines + e.sines)


def of_the_cosine(e: Evidence) -> Iterator[Guess]:
    """The sign of the cosine, if there are angles."""
    if not e.sines.any():
        return
    yield whole("a sign: every cosine has the opposite sign", e.sines - e.cosines)
    words = "a sign: that of the cosine in "
    yield from parts(e, words, e.sines - e.cosines, e.sines + e.cosines)


def a_product_alone(e: Evidence) -> Iterator[Guess]:
    """Only one of the two products, in all of a row or in a part."""
    for name, left in (("sine", e.cosines), ("cosine", e.sines)):
        words = f"half of it is missing: the product with the {name}"
        all_of_it = e.expected.to(left.dtype)
        left = torch.where(e.sines == 0, all_of_it, left)
        yield whole(words, left)
        yield from parts(e, f"{words}, in ", left, all_of_it)


def other_unit(e: Evidence) -> Iterator[Guess]:
    """The angle times a number that readers multiply it by."""
    for times, words in (
        (torch.pi / 180, "it treats radians as degrees"),
        (180 / torch.pi, "it converts radians to degrees, and sin and cos take radians"),
        (2 * torch.pi, "it treats radians as turns"),
        (2.0, "it rotates by twice the angle"),
        (0.5, "it rotates by half the angle"),
    ):
        result = e.expected_with_angles(lambda x, times=times: times * x)
        yield whole(f"the wrong angle: {words}", result)
    words = "the wrong angle: its fraction is gone; is it converted to an integer?"
    yield whole(words, e.expected_with_angles(torch.trunc))


def rounded(e: Evidence) -> Iterator[Guess]:
    """Angles in half precision, where large ones have no fractions."""
    words = "too few digits: the angles are rounded to half precision before sin and cos"
    yield whole(words, e.expected_with_angles(lambda x: x.to(e.expected.dtype).double()))


def other_columns(e: Evidence) -> Iterator[Guess]:
    """Columns of the table, counted in another way."""
    words = "the wrong angle: every pair is rotated by the first pair's"
    yield whole(words, e.expected_with_angles(lambda x: x[..., :1].expand_as(x)))
    if not e.halves_have_angles:
        return
    words = "the wrong angle: each half takes the angles of the other"
    yield part(words, e.expected_with_angles(lambda x: x.roll(x.shape[-1] // 2, -1)))

    def half_as_long(x: Tensor) -> Tensor:
        rows, d2 = x.shape[0], x.shape[-1]
        place = torch.arange(rows)[:, None] * (d2 // 2) + torch.arange(d2)
        return x.flatten()[place].view_as(x)

    words = "a wrong stride: rows of the table are d2 apart, not d2 / 2"
    yield whole(words, e.expected_with_angles(half_as_long))


def sines_of_two_halves(e: Evidence) -> Iterator[Guess]:
    """Each half has one of two sines with one of two signs; other rules name some of these."""
    if not e.halves_have_angles:
        return
    of_partner = e.sine_part(lambda x: x.roll(x.shape[-1] // 2, -1))
    sines = {
        "": e.sines,
        "the opposite sign": -e.sines,
        "the sine of the other angle": of_partner,
        "the sine of the other angle, with the opposite sign": -of_partner,
    }
    first = e.places["the first half"]
    for (one, in_first), (other, in_second) in product(sines.items(), repeat=2):
        if one == other:
            continue
        halves = {"first": one, "second": other}
        words = [f"the {half} half has {what}" for half, what in halves.items() if what]
        result = e.cosines + torch.where(first, in_first, in_second)
        yield part(f"the wrong sine: {'; '.join(words)}", result)


def position(e: Evidence) -> Iterator[Guess]:
    """Angles of rows counted in another way than by position."""
    first = e.expected_with_angles(lambda x: x[:1].expand_as(x))
    yield whole("the wrong position: the angle is that of 0, the first position", first)
    floats = next((x for x, a in e.arguments if a.holds == "floats" and x.dim() == 4), None)
    table = next((x for x, a in e.arguments if a.holds == "angles"), None)
    if floats is None or table is None or e.expected.dim() != 4 or e.case.name == MANY:
        return
    rows = range(len(table))
    turned = [e.expected_with_angles(lambda x, p=p: x[p : p + 1].expand_as(x)) for p in rows]
    s, b, h, _ = e.expected.shape
    row = torch.arange(s * b * h).view(s, b, h)
    for words, others in {
        "the row's number": row,
        "the row's number divided by h alone": row // h,
        "the row's number divided by b alone": row // b,
        "the head's number": row % h,
    }.items():
        # beyond the table may be anything
        result = e.got.to(turned[0].dtype)
        for p, of_one in enumerate(turned):
            result = torch.where((others == p)[..., None], of_one, result)
        yield whole(f"the wrong position: the angle is that of {words}", result)


RULES = (
    minus,
    of_the_table,
    sine_of_a_part,
    of_the_partner,
    other_function,
    exchanged_functions,
    of_the_cosine,
    a_product_alone,
    other_unit,
    rounded,
    other_columns,
    sines_of_two_halves,
    position,
)
