"""A row that is normalized and multiplied by weights before it is rotated."""

from collections.abc import Iterator

import torch

from .evidence import Evidence
from .guess import Guess, own, whole

EPSILON = 1e-6


def weights(e: Evidence) -> Iterator[Guess]:
    """Another column's weights, none, or after the rotation."""
    number = next((n for n, a in enumerate(e.spec.arguments) if a.name == "weight"), None)
    if number is None:
        return
    weight, one = e.inputs[number], torch.ones_like(e.inputs[number])
    first, second = weight.chunk(2, -1)
    for words, other in {
        "each half takes the other half's weights": torch.cat((second, first), -1),
        "the second half takes the first half's weights": torch.cat((first, first), -1),
        "the first half takes the second half's weights": torch.cat((second, second), -1),
        "no weights are applied": one,
    }.items():
        yield whole(f"the wrong weight: {words}", e.expected_with_input(number, other))
    unweighted = e.expected_with_input(number, one)
    yield whole(
        "the wrong order: the weights are applied after the rotation, not before",
        (unweighted.double() * weight.double()).to(e.got.dtype),
    )


def root(e: Evidence) -> Iterator[Guess]:
    """What is summed, and the root itself."""
    if not any(argument.name == "weight" for argument in e.spec.arguments):
        return
    x = next(x for x, a in e.arguments if a.name == "x").double()
    mean = x.square().mean(-1, keepdim=True)
    first, second = (half.square().sum(-1, keepdim=True) / x.shape[-1] for half in x.chunk(2, -1))
    for words, wrong in {
        "half of the sum is missing: only the first half is squared": (first + EPSILON).sqrt(),
        "half of the sum is missing: only the second half is squared": (second + EPSILON).sqrt(),
        "the wrong mean: the first half's alone": (2 * first + EPSILON).sqrt(),
        "the wrong mean: the second half's alone": (2 * second + EPSILON).sqrt(),
        "the root is missing: the row is divided by its mean square": mean + EPSILON,
    }.items():
        scaled = e.expected.double() * ((mean + EPSILON).sqrt() / wrong).nan_to_num()
        yield own(words, scaled.to(e.got.dtype))


RULES = (weights, root)
