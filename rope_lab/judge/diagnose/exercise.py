"""What only the exercise knows: `mistakes` of its specification, and how its results may round."""

from collections.abc import Iterator

import torch

from .evidence import Evidence, Guess, own, seen


def known_mistake(e: Evidence) -> Iterator[Guess]:
    """Those that begin with "rounding" are for `rounding`."""
    for words, made in e.mistakes.items():
        if not words.startswith("rounding"):
            yield own(words, made)


def rounding(e: Evidence) -> Iterator[Guess]:
    """Right but for the last digits; in the words of the exercise, if it knows how this rounds."""
    if e.only_in_tail:
        return  # nothing is computed there
    got, expected = e.got.double(), e.expected.double()
    largest = float(expected.abs().max())
    if not ((got - expected).abs() <= 4 * torch.finfo(torch.float16).eps * largest).all():
        return
    told = "rounding: compute in fp32, and round once, at the end"
    for words, made in e.mistakes.items():
        if _fits(e, made) and not _fits(e, e.expected):
            told = words
    yield seen(told)


def _fits(e: Evidence, made: torch.Tensor) -> bool:
    """Is it the result, bit for bit but for a few elements; of fp32, in nearly all digits?"""
    if made.shape != e.got.shape:
        return False
    if e.got.dtype == torch.float32:
        return torch.allclose(e.got, made, rtol=1e-5, atol=1e-7, equal_nan=True)
    return bool((made == e.got).double().mean() > 0.9)


RULES = (known_mistake, rounding)
