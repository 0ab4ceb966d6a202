"""Notebook 01: the math, in PyTorch."""
# ruff: noqa: F821 (the letters of shapes)

from math import pi

import torch

from ..spec import STRIDED, spec
from .definitions import BLOCKS, OTHER_SIZES

_MATH = {"leave_out": (*BLOCKS, *STRIDED, "half precision"), "extra": OTHER_SIZES}

_NO_LOOP = ("no loop",)


@spec(**_MATH, asks=_NO_LOOP)
def turned_pairs(x: "(s, d)", angle: "angles (s, p)"):
    """Each row's neighbors turned by that row's angles, one for each pair."""
    x, y = x[..., ::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((x * cos - y * sin, x * sin + y * cos), dim=-1).flatten(-2)


@spec(**_MATH)
def frequencies(d: "number (d)", base: "number (base)"):
    """The angles per position of d/2 pairs."""
    return float(base) ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def slow_pairs(d: int, base: float, positions: int) -> int:
    """How many pairs don't finish a turn within so many positions."""
    return int((frequencies.function(d, base) * positions < 2 * torch.pi).sum())


def _turned_by_row(x, theta, direction=1):
    return turned_pairs.function(x, direction * torch.arange(len(x))[:, None] * theta)


def _keys_backwards(q, k, theta):
    return _turned_by_row(q, theta) @ _turned_by_row(k, theta, -1).T


def _keys_not_turned(q, k, theta):
    return _turned_by_row(q, theta) @ k.T


def _queries_not_turned(q, k, theta):
    return q @ _turned_by_row(k, theta).T


_WRONG_SCORES = {
    "the keys turn the other way: the score has the sum of the positions": _keys_backwards,
    "the keys are not turned": _keys_not_turned,
    "the queries are not turned": _queries_not_turned,
}


@spec(**_MATH, asks=_NO_LOOP, mistakes=_WRONG_SCORES, largest_angle=1)
def table_of_scores(q: "(s, d)", k: "(s, d)", theta: "angles (p)"):
    """Row m, column n: the query at position m, rotated, times the key at position n, rotated."""
    return _turned_by_row(q, theta) @ _turned_by_row(k, theta).T


@spec(**_MATH, asks=_NO_LOOP)
def rotation_matrices(angle: "angles (s, p)"):
    """For each position the matrix with a rotation for each pair on its diagonal."""
    one = torch.eye(2 * angle.shape[-1], dtype=angle.dtype)
    return torch.stack([turned_pairs.function(one, row.expand(len(one), -1)).T for row in angle])


# exercise 2: of 24 scores with keys that turn the wrong way, how many are right
WRONG_WAY = {
    "no key at all; one of them is not turned, so it has no wrong way": 0,
    "one query alone; which position the query has does not matter": 1,
    "the first row, or the diagonal: what matters is that the key is not turned": 4,
    "the first row as well; a query that is not turned does not help a key that is": 9,
    "the wrong scores, not the right ones": 18,
    "all of them; -n and n are the same angle for one n only": 24,
}

# exercise 5's question: pairs that do not finish a turn
_ASKED = {"d": 128, "base": 500_000.0, "positions": 8192}
SLOW_PAIRS = {
    "the base 10 000": slow_pairs(**_ASKED | {"base": 10_000.0}),
    "the fast pairs, not the slow ones": 64 - slow_pairs(**_ASKED),
    "2 pi is missing: a turn is 2 pi, not 1": slow_pairs(**_ASKED | {"positions": 8192 * 2 * pi}),
    "half a turn, not a whole one": slow_pairs(**_ASKED | {"positions": 2 * 8192}),
    "elements, not pairs": 2 * slow_pairs(**_ASKED),
    "4096 positions": slow_pairs(**_ASKED | {"positions": 4096}),
}
