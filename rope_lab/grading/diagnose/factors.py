"""A factor of everything."""

from collections.abc import Iterator

from .evidence import Evidence
from .guess import Guess, fitted


def of_all(e: Evidence) -> Iterator[Guess]:
    """The one by which what came out is closest to what is expected."""
    got, expected = e.got.double(), e.expected.double()
    factor = float((got * expected).sum() / (expected * expected).sum())
    if abs(factor) > 1e-2:
        yield fitted(
            f"a factor: everything is {factor:.3g} times what is expected", factor * expected
        )


RULES = (of_all,)
