"""A factor: of everything, of one half, or of the products with sine or cosine."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .evidence import Evidence
from .guess import Guess, fitted, part, whole


def of_all(e: Evidence) -> Iterator[Guess]:
    """Of everything; or the reciprocal, the root or the square of what is expected."""
    got, expected = e.got.double(), e.expected.double()
    if (expected > 0).all() and (got > 0).all():
        yield whole("the reciprocal: it is one divided by what is expected", 1 / expected)
        for power, name in ((0.5, "square root"), (2.0, "square")):
            words = f"a factor in the exponent: it is the {name} of what is expected"
            if e.close(got.log(), power * expected.log()):
                yield whole(words)
    factor = _fit(got, expected)
    if abs(factor) > 1e-2:
        yield fitted(
            f"a factor: everything is {factor:.3g} times what is expected", factor * expected
        )


def of_sine_or_cosine(e: Evidence) -> Iterator[Guess]:
    """Of the sine's products, or the cosine's, everywhere or in one half."""
    if not e.has_angles:
        return
    got, column = e.got.double(), torch.arange(e.got.shape[-1])
    in_first = column < e.rotary_dim // 2
    products = {"sine": e.sines.double(), "cosine": e.cosines.double()}
    for where, here in (
        ("", column >= 0),
        (", in the first half", in_first),
        (", in the second half", ~in_first & (column < e.rotary_dim)),
    ):
        for name, all_of_them in products.items():
            these = torch.where(here, all_of_them, 0.0)
            if not these.any():
                continue
            rest = sum(products.values()) - these
            yield part(f"the {name} is missing{where}: its products are left out", rest)
            factor = _fit(got - rest, these)
            if abs(factor) > 1e-2 and round(factor, 2) != -1:  # that is a sign
                times = f"they are {factor:.3g} times what is expected"
                words = f"a factor in the {name}'s products{where}: {times}"
                yield fitted(words, rest + factor * these)


def of_a_half(e: Evidence) -> Iterator[Guess]:
    """One half of what comes out, or of what is rotated, times a factor."""
    if not e.has_angles:
        return
    got, expected, x = e.got.double(), e.expected.double(), e.inputs[0]
    column = torch.arange(e.expected.shape[-1])
    first, turns = column < e.rotary_dim // 2, column < e.rotary_dim
    for name, here in (("first", first), ("second", turns & ~first)):
        if isinstance(x, Tensor) and x.shape == e.expected.shape:
            these, rest = (
                e.expected_with_input(0, torch.where(kept, x, torch.zeros_like(x))).double()
                for kept in (here, ~here)
            )
            factor = _fit(got - rest, these)
            if abs(factor) > 1e-2:
                words = f"a factor in the {name} member of each pair, before it is rotated: "
                words += f"{factor:.3g} times what is expected"
                yield fitted(words, rest + factor * these)
        factor = _fit(got * here, expected * here)
        if abs(factor) > 1e-2:
            words = f"a factor in the {name} half: it is {factor:.3g} times what is expected"
            yield fitted(words, torch.where(here, factor * expected, expected))


def _fit(got: Tensor, whole: Tensor) -> float:
    """The factor by which this is closest to that."""
    return float((got * whole).sum() / (whole * whole).sum())


RULES = (of_all, of_sine_or_cosine, of_a_half)
