"""The wrong angle of the table, for the cosine or the sine, or the wrong function of it."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..check import clone
from .evidence import Evidence
from .guess import Guess, own, part, whole


def minus(e: Evidence) -> Iterator[Guess]:
    """The sign of every angle."""
    if e.has_angles:
        words = "a sign: it rotates by minus the angle"
        if e.is_gradient:
            words = "a sign: it is the gradient for minus the angles; every sine has the wrong sign"
        yield whole(words, e.expected_with_angles(torch.neg))


def of_the_table(e: Evidence) -> Iterator[Guess]:
    """One half's angles for both, or each half's for itself."""
    if not e.halves_have_angles:
        return
    by_first = e.expected_with_angles(lambda x: _both(_first(x)))
    by_second = e.expected_with_angles(lambda x: _both(_second(x)))
    yield whole("the wrong angle: the second half takes the first half's angle", by_first)
    yield whole("the wrong angle: the first half takes the second half's angle", by_second)
    exchanged = e.expected_with_angles(lambda x: torch.cat((_second(x), _first(x)), -1))
    yield part("the wrong angle: each half takes the other's angle", exchanged)
    yield part(
        "the wrong angle: each half takes its own, where one is asked for both",
        torch.where(
            torch.arange(e.expected.shape[-1]) < e.rotary_dim // 2,
            by_first,
            by_second,
        ),
    )


def _first(x: Tensor) -> Tensor:
    return x.chunk(2, -1)[0]


def _second(x: Tensor) -> Tensor:
    return x.chunk(2, -1)[-1]


def _both(x: Tensor) -> Tensor:
    return torch.cat((x, x), -1)


def sine_of_a_part(e: Evidence) -> Iterator[Guess]:
    """The sign of the sine in a part of each row."""
    if e.has_angles:
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
    for where, result in e.with_sines_in_a_part(swapped):
        yield part(f"the wrong sine, in {where}: the other half should take it", result)
    for where, result in e.with_sines_in_a_part(-swapped):
        words = f"a sign and the wrong sine, in {where}: the map itself, not its transpose"
        yield part(words, result)


def other_function(e: Evidence) -> Iterator[Guess]:
    """A cosine where a sine belongs, or the other way: those of the angle plus a quarter turn."""
    if not e.has_angles:
        return
    cosines, sines = e.cosines, e.sines
    minus_sines, with_cosine = (
        e.cosine_part(lambda x: x + torch.pi / 2),
        e.sine_part(lambda x: x + torch.pi / 2),
    )
    words = "the wrong function: sine and cosine have changed places"
    yield whole(words, with_cosine - minus_sines)
    words = "the wrong function: a cosine for the sine, in "
    yield whole(f"{words}every element", cosines + with_cosine)
    for where, result in e.with_sines_in_a_part(with_cosine):
        yield part(f"{words}{where}", result)
    words = "the wrong function: a sine for the cosine, in "
    yield whole(f"{words}every element", sines - minus_sines)
    for where, here in e.places.items():
        yield part(f"{words}{where}", torch.where(here, -minus_sines, cosines) + sines)


def step_of_the_table(e: Evidence) -> Iterator[Guess]:
    """The row of an angle, counted in pairs where elements are meant."""
    for x, argument in e.arguments:
        if argument.holds != "angles" or x.dim() != 4 or x.shape[-1] % 2:
            continue
        half = x.shape[-1] // 2
        steps = torch.arange(x.shape[0])[:, None] * half + torch.arange(x.shape[-1])
        narrow = x.flatten()[steps].view(x.shape)
        yield whole(
            "the step of the table: the row of the next position begins d2 elements on",
            e.expected_with_angles(lambda _, narrow=narrow: narrow),
        )


def large(e: Evidence) -> Iterator[Guess]:
    """The candidate runs once more, on the same angles less whole turns, and is right."""
    tables = [x for x, a in e.arguments if a.holds == "angles"]
    if not any((x.abs() > torch.pi).any() for x in tables) or e.close(e.got, e.expected):
        return
    if tables[0].dim() == e.expected.dim() == 4 and len(tables[0]) == len(e.expected):
        small = (tables[0].abs() < torch.pi).flatten(1).all(1)
        if e.wrong[small].any():
            return
    elif not e.got.isfinite().all():
        return
    within = [_within_a_turn(x) if a.holds == "angles" else clone(x) for x, a in e.arguments]
    wanted = e.spec(*within)
    try:
        result = e.run(*within)
    except Exception:  # it returns nothing, perhaps
        return
    if e.close(result, wanted):
        words = "a sine for small angles alone: right within half a turn, wrong beyond"
        yield own(f"{words}; take whole turns off first, or use tl.sin and tl.cos")


def _within_a_turn(x: Tensor) -> Tensor:
    turn = 2 * torch.pi
    return (x.double() - turn * (x.double() / turn).round()).to(x.dtype)


RULES = (
    minus,
    of_the_table,
    sine_of_a_part,
    of_the_partner,
    other_function,
    step_of_the_table,
    large,
)
