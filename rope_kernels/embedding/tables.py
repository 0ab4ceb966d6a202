"""Tables that are known to have one column per pair."""

from typing import NamedTuple

from torch import Tensor


class AnglesPerPair(NamedTuple):
    """A table of angles that is known to have one column per pair."""

    angles: Tensor  # (s2, 1, 1, d2 / 2)


class CosSinPerPair(NamedTuple):
    """Cosines and sines that are known to have one column per pair."""

    cos: Tensor  # (s2, d2 / 2)
    sin: Tensor


PER_PAIR = AnglesPerPair, CosSinPerPair
