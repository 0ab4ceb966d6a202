"""The wrong angle of the table, for the cosine or the sine, or the wrong function of it.

Without angles these guesses are what is expected, and what is expected bears out no guess.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .evidence import Evidence, Guess, part, whole


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
    yield part("the wrong angle: each half takes its own, where one is asked for both", own)


def _of_half(number: int) -> Callable[[Tensor], Tensor]:
    """Both halves of a table with the angles of one."""
    return lambda x: torch.cat(2 * (x.chunk(2, -1)[number],), -1)


def sine_of_a_part(e: Evidence) -> Iterator[Guess]:
    """The sign of the sine in a part of each row."""
    for where, result in e.with_sines_in_a_part(-e.sines):
        yield part(f"a sign: that of the sine in {where}", result)


def of_the_partner(e: Evidence) -> Iterator[Guess]:
    """The sine or the cosine of the other's angle, where the angles of a pair may differ."""
    if not e.halves_have_angles:
        return

    def swap(x: Tensor) -> Tensor:
        return x.roll(x.shape[-1] // 2, -1)

    cosines, sines, swapped = e.cosines, e.sines, e.sine_part(swap)
    words = "the wrong sine: each half takes the sine that the other should take"
    yield whole(words, cosines + swapped)
    words = "a sign and the wrong sine: the map itself, where its transpose is asked for"
    yield whole(words, cosines - swapped)
    words = "the wrong cosine: each half takes the cosine of the other's angle"
    yield whole(words, e.cosine_part(swap) + sines)


def other_function(e: Evidence) -> Iterator[Guess]:
    """A cosine where a sine belongs: the sine of the angle plus a quarter turn."""
    with_cosine = e.sine_part(lambda x: x + torch.pi / 2)
    words = "the wrong function: a cosine for the sine, in "
    yield whole(f"{words}every element", e.cosines + with_cosine)
    for where, result in e.with_sines_in_a_part(with_cosine):
        yield part(f"{words}{where}", result)


RULES = minus, of_the_table, sine_of_a_part, of_the_partner, other_function
