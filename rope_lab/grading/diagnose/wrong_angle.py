"""The wrong angle of the table, for the cosine or the sine, or the wrong function of it."""

import torch

from .evidence import Evidence


def half_angles(e: Evidence) -> str | None:
    """The spec with one half's angles taken for both."""
    if not e.halves_have_angles:
        return None
    for what, pick in (
        ("the second half takes the first half's angle", lambda a, b: (a, a)),
        ("the first half takes the second half's angle", lambda a, b: (b, b)),
        ("each half takes the other's angle", lambda a, b: (b, a)),
    ):
        if e.got_is(
            e.expected_with_angles(lambda x, pick=pick: torch.cat(pick(*x.chunk(2, -1)), -1))
        ):
            return f"the wrong angle: {what}"
    for which, one in (("first", 0), ("second", 1)):
        if e.got_is(
            e.expected_with_angles(lambda x, one=one: x[..., one::2].repeat_interleave(2, -1))
        ):
            return f"the wrong angle: both of two neighbors take the {which} one's angle"
    return None


def an_angle_for_each_half(e: Evidence) -> str | None:
    """Where the specification asks for one angle a pair."""
    if not e.halves_have_angles:
        return None
    by_half = [
        e.expected_with_angles(lambda x, half=half: torch.cat([x.chunk(2, -1)[half]] * 2, -1))
        for half in (0, 1)
    ]
    in_first = torch.arange(e.expected.shape[-1]) < e.rotary_dim // 2
    if e.got_is(torch.where(in_first, *by_half)):
        return "the wrong angle: each half takes its own, where one is asked for both"
    return None


_PARTNERS = {  # who -> angles with those of the partner in place of its own
    "half": lambda x: x.roll(x.shape[-1] // 2, -1),
    "of two neighbors": lambda x: x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
}


def wrong_sine(e: Evidence) -> str | None:
    """A rotation has a cosine part, the same for minus the angle, and a sine part, which turns."""
    if not e.has_angles:
        return None
    cosines, sines = e.cosine_and_sine_parts()
    for where, sign in e.places.items():
        if e.got_is(cosines + torch.where(sign, -sines, sines)):
            return f"a sign: that of the sine in {where}"
    if not e.halves_have_angles or e.spec.angles != "unlike":
        return None
    for who, swap in _PARTNERS.items():
        _, swapped = e.cosine_and_sine_parts(swap)
        if e.got_is(cosines + swapped):
            return f"the wrong sine: each {who} takes the sine that the other should take"
        if e.got_is(cosines - swapped):
            return "a sign and the wrong sine: the map itself, where its transpose is asked for"
        for where, here in e.places.items():
            if e.got_is(cosines + torch.where(here, swapped, sines)):
                return f"the wrong sine, in {where}: the other {who} should take it"
            if e.got_is(cosines + torch.where(here, -swapped, sines)):
                return f"a sign and the wrong sine, in {where}: the map itself, not its transpose"
    return None


def wrong_cosine(e: Evidence) -> str | None:
    """The partner's angle for the cosine, too, which the turned vector's own element keeps."""
    if not e.halves_have_angles or e.spec.angles != "unlike":
        return None
    for who, swap in _PARTNERS.items():
        cosines, sines_of_other = e.cosine_and_sine_parts(swap)
        _, sines_of_own = e.cosine_and_sine_parts()
        if any(e.got_is(cosines + sines) for sines in (sines_of_own, sines_of_other)):
            return f"the wrong cosine: each {who} takes the cosine of the other's angle"
    return None


def other_function(e: Evidence) -> str | None:
    """A cosine where a sine belongs, or the other way: those of the angle plus a quarter turn."""
    if not e.has_angles:
        return None
    cosines, sines = e.cosine_and_sine_parts()
    minus_sines, with_cosine = e.cosine_and_sine_parts(lambda x: x + torch.pi / 2)
    if e.got_is(with_cosine - minus_sines):
        return "the wrong function: sine and cosine have changed places"
    everywhere = torch.ones(cosines.shape[-1], dtype=torch.bool)
    for where, place in ({"every element": everywhere} | e.places).items():
        if e.got_is(cosines + torch.where(place, with_cosine, sines)):
            return f"the wrong function: a cosine for the sine, in {where}"
        if e.got_is(torch.where(place, -minus_sines, cosines) + sines):
            return f"the wrong function: a sine for the cosine, in {where}"
    return None


def columns_of_the_table(e: Evidence) -> str | None:
    """Row and column of an angle, counted in pairs where elements are meant."""
    for x, argument in e.arguments:
        if argument.holds != "angles" or x.dim() != 4 or x.shape[-1] % 2:
            continue
        d2, half = x.shape[-1], x.shape[-1] // 2
        steps = torch.arange(x.shape[0])[:, None] * half + torch.arange(d2)
        narrow = x.flatten()[steps].view(x.shape)
        one_a_pair = x[..., :half].repeat_interleave(2, -1)
        for wrong, words in (
            (narrow, "the step of the table: the row of the next position begins d2 elements on"),
            (one_a_pair, "the columns of the table: the angle of pair i is in column 2i, not i"),
        ):
            if e.got_is(e.expected_with_angles(lambda _, wrong=wrong: wrong)):
                return words
    return None
