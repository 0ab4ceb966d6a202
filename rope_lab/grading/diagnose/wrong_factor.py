"""A factor: of everything, of one half, or of the products with sine or cosine."""

import torch

from .evidence import Evidence


def factor_of_all(e: Evidence) -> str | None:
    """Of everything; or the reciprocal, the root or the square of what is expected."""
    got, expected = e.got.double(), e.expected.double()
    positive = bool((expected > 0).all() and (got > 0).all())
    if positive and e.close(got * expected, torch.ones_like(got)):
        return "the reciprocal: it is one divided by what is expected"
    if positive and e.close(got.log(), expected.log() / 2):
        return "a factor in the exponent: it is the square root of what is expected"
    if positive and e.close(got.log(), expected.log() * 2):
        return "a factor in the exponent: it is the square of what is expected"
    factor = float((got * expected).sum() / (expected * expected).sum())
    if abs(factor) > 1e-2 and e.close(got, factor * expected):
        return f"a factor: everything is {factor:.3g} times what is expected"
    return None


def factor_in_a_part(e: Evidence) -> str | None:
    """The sine's products, or the cosine's, or one half, times a factor that all should have."""
    if not e.has_angles:
        return None
    got = e.got.double()
    cosines, sines = (part.double() for part in e.cosine_and_sine_parts())
    half, column = e.rotary_dim // 2, torch.arange(got.shape[-1])
    for where, here in (
        ("", column >= 0),
        (", in the first half", column < half),
        (", in the second half", (column >= half) & (column < 2 * half)),
    ):
        for name, whole in (("sine", sines), ("cosine", cosines)):
            part = torch.where(here, whole, 0.0)
            rest = cosines + sines - part
            if not part.any():
                continue
            factor = float(((got - rest) * part).sum() / (part * part).sum())
            if abs(factor) < 1e-2 and e.close(got, rest):
                return f"the {name} is missing{where}: its products are left out"
            if abs(factor) > 1e-2 and e.close(got, rest + factor * part):
                times = f"they are {factor:.3g} times what is expected"
                return f"a factor in the {name}'s products{where}: {times}"
    member = _factor_in_a_member(e)
    if member:
        return member
    for name, place in (("first", slice(None, half)), ("second", slice(half, 2 * half))):
        one, want = got[..., place], e.expected[..., place].double()
        factor = float((one * want).sum() / (want * want).sum())
        guess = e.expected.double().clone()
        guess[..., place] *= factor
        if abs(factor) > 1e-2 and e.close(got, guess):
            return f"a factor in the {name} half: it is {factor:.3g} times what is expected"
    return None


def _factor_in_a_member(e: Evidence) -> str | None:
    """One half of what is rotated times a factor, before it is rotated."""
    x = e.inputs[0]
    if x.shape != e.expected.shape:
        return None
    first = torch.arange(x.shape[-1]) < e.rotary_dim // 2
    got = e.got.double()
    for name, place in (("first", first), ("second", ~first)):
        part, rest = (
            e.expected_with_input(0, torch.where(here, x, torch.zeros_like(x))).double()
            for here in (place, ~place)
        )
        factor = float(((got - rest) * part).sum() / (part * part).sum())
        if abs(factor) > 1e-2 and e.close(got, rest + factor * part):
            return (
                f"a factor in the {name} member of each pair, before it is rotated: "
                f"{factor:.3g} times what is expected"
            )
    return None
