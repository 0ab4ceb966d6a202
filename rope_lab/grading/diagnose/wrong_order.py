"""The right elements in the wrong place of their row."""

import torch
from torch import Tensor

from .evidence import Evidence


def halves_swapped(e: Evidence) -> str | None:
    """Each half is where the other should be."""
    d2 = e.rotary_dim
    first, second, tail = e.got[..., : d2 // 2], e.got[..., d2 // 2 : d2], e.got[..., d2:]
    if e.close(torch.cat((second, first, tail), -1), e.expected):
        return "halves swapped: each half is where the other should be"
    if e.close(torch.cat((-second, -first, tail), -1), e.expected):
        return "halves swapped, and a sign: each half is where the other should be"
    return None


def neighbors_swapped(e: Evidence) -> str | None:
    """The same for the interleaved pairing."""
    d2 = e.rotary_dim
    if d2 % 2 or d2 > e.got.shape[-1]:
        return None
    swapped, tail = e.got[..., :d2].unflatten(-1, (-1, 2)).flip(-1).flatten(-2), e.got[..., d2:]
    if e.close(torch.cat((swapped, tail), -1), e.expected):
        return "neighbors swapped: each of the two is where the other should be"
    if e.close(torch.cat((-swapped, tail), -1), e.expected):
        return "neighbors swapped, and a sign: each of the two is where the other should be"
    return None


def permuted(e: Evidence) -> str | None:
    """Right numbers in a wrong order; and where elements are only to be put in order."""
    d2 = e.rotary_dim
    if d2 % 2 or d2 > e.expected.shape[-1]:
        return None
    apart = torch.arange(d2).view(-1, 2).t().flatten()  # neighbors -> halves
    for x, argument in e.arguments:
        if argument.holds != "floats" or x.shape != e.expected.shape:
            continue
        for there, back in ((apart, apart.argsort()), (apart.argsort(), apart)):
            if e.close(ordered(x, there), e.expected) and e.got_is(ordered(x, back)):
                return "the order: the permutation goes the other way"
    if e.got_is(ordered(e.expected, apart)):
        return "the order: the right numbers, with halves where neighbors are asked for"
    if e.got_is(ordered(e.expected, apart.argsort())):
        if e.spec.angles == "pairs":
            return "the order: the permutation once more, where its inverse is asked for"
        return "the order: the right numbers, with neighbors where halves are asked for"
    for whole in (e.expected, *(x for x, argument in e.arguments if argument.holds == "floats")):
        if e.got_is(whole.flip(-1)):
            return "the order: the last dimension runs backwards"
    return None


def transposed(e: Evidence) -> str | None:
    """Of a matrix."""
    if e.expected.dim() > 1 and e.got_is(e.expected.transpose(-1, -2)):
        return "transposed: rows and columns have changed places"
    return None


def shifted(e: Evidence) -> str | None:
    """By one place."""
    if e.got.shape[-1] > 2 and e.close(e.got[..., :-1], e.expected[..., 1:]):
        return "shifted: every element is one place too early"
    if e.got.shape[-1] > 2 and e.close(e.got[..., 1:], e.expected[..., :-1]):
        return "shifted: every element is one place too late"
    return None


def ordered(x: Tensor, order: Tensor) -> Tensor:
    """Each row's first elements in this order, and its tail as it is."""
    return torch.cat((x[..., order], x[..., len(order) :]), -1)
