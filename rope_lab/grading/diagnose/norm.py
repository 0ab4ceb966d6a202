"""A row that is normalized and multiplied by weights before it is rotated."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from .evidence import Evidence
from .guess import Guess, own, seen, whole

EPSILON = 1e-6


def weights(e: Evidence) -> Iterator[Guess]:
    """Another column's weights, none, or after the rotation."""
    number = next((n for n, a in enumerate(e.spec.arguments) if a.name == "weight"), None)
    if number is None or e.is_gradient:
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
    """What is summed, and where the 1e-6 belongs."""
    if not any(argument.name == "weight" for argument in e.spec.arguments):
        return
    if e.expected.dim() < 2:
        yield from _masked_rows(e)
        return
    x = next(x for x, a in e.arguments if a.name in ("t", "x")).double()
    rows_of_zeros = (x == 0).all(-1)
    if rows_of_zeros.any() and e.got[rows_of_zeros].isnan().all():
        yield own("0/0: a row of zeros comes out as NaN; the 1e-6 under the root is missing")
        return
    if e.is_gradient:
        return
    mean = x.square().mean(-1, keepdim=True)
    if other := _other_epsilon(e, mean):
        yield seen(f"another number under the root: {other:.0e}, where {EPSILON:.0e} is asked for")
        return
    first, second = (half.square().sum(-1, keepdim=True) / x.shape[-1] for half in x.chunk(2, -1))
    for words, wrong in {
        "half of the sum is missing: only the first half is squared": (first + EPSILON).sqrt(),
        "half of the sum is missing: only the second half is squared": (second + EPSILON).sqrt(),
        "the wrong mean: the first half's alone": (2 * first + EPSILON).sqrt(),
        "the wrong mean: the second half's alone": (2 * second + EPSILON).sqrt(),
        "the 1e-6 is in the wrong place: it belongs under the root": mean.sqrt() + EPSILON,
        "the 1e-6 is in the wrong place: it is added to the sum, not to the mean": (
            mean + EPSILON / x.shape[-1]
        ).sqrt(),
        "the 1e-6 under the root is missing": mean.sqrt(),
        "the root is missing: the row is divided by its mean square": mean + EPSILON,
        "the row is multiplied by the root, not divided: `rsqrt`": (mean + EPSILON).rsqrt(),
        "the wrong divisor: the columns of the block, not the elements of the row": (
            mean * x.shape[-1] / 2 ** math.ceil(math.log2(x.shape[-1])) + EPSILON
        ).sqrt(),
    }.items():
        scaled = e.expected.double() * ((mean + EPSILON).sqrt() / wrong).nan_to_num()
        yield own(words, scaled.to(e.got.dtype))


def _masked_rows(e: Evidence) -> Iterator[Guess]:
    """Of a gradient that is a sum over rows: a row that is masked off is 0, and its 0/0 is NaN."""
    if not e.got.isnan().all():
        return
    whole_tiles = [
        torch.randn(x.shape[0], 1, 8, x.shape[-1], dtype=x.dtype)
        if x.dim() == 4 and argument.holds == "floats"
        else x
        for x, argument in e.arguments
    ]
    if e.run(*whole_tiles).isfinite().all():
        yield own("0/0: a masked row, all zeros, adds NaN; the 1e-6 under the root is missing")


def _other_epsilon(e: Evidence, mean: Tensor) -> float | None:
    """What is added to the mean square, if each row is right but for that."""
    got, expected = e.got.double(), e.expected.double()
    if e.got.dtype != torch.float32 or not got.isfinite().all():
        return None
    scale = (got * expected).sum(-1, keepdim=True) / expected.square().sum(-1, keepdim=True)
    if not torch.allclose(got, scale * expected, rtol=1e-5, atol=1e-5):
        return None
    added = ((mean + EPSILON) / scale.square() - mean).flatten()
    found = float(added.median())
    alike = (added - found).abs() <= 0.1 * abs(found) + 1e-6
    return found if alike.all() and found > 3 * EPSILON else None


RULES = (weights, root)
