"""Right but for the last digits."""

import torch

from .evidence import Evidence


def rounding(e: Evidence) -> str | None:
    """In the words of the exercise, if it knows how this one rounds."""
    if e.only_in_tail:
        return None  # nothing is computed there
    got, expected = e.got.double(), e.expected.double()
    largest = float(expected.abs().max())
    if not ((got - expected).abs() <= 4 * torch.finfo(torch.float16).eps * largest).all():
        return None
    for words, wrong in e.mistakes.items():  # bit for bit, but for a few
        if words.startswith("rounding") and (wrong(*e.inputs) == e.got).double().mean() > 0.9:
            return words
    return "rounding: compute in fp32, and round once, at the end"
