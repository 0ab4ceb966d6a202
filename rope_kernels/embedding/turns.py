"""Frequencies in whole numbers: angles at any position, without the rounding of large products."""

import math
import weakref
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ..machine.modes import backward_that_runs, checkpointed_region, is_in_backward, is_traced

# 1 / 2 pi, the turns in a radian, in pieces of 24 bits: fp64 multiplies with them exactly
_TURNS_IN_A_RADIAN = (0x28BE60 * 2.0**-24, 0xDB9391 * 2.0**-48, 0x054A7F * 2.0**-72)


def in_turns(inv_freq: Tensor, scale: float = 1.0) -> Tensor:
    """`inv_freq * scale` in units of 2^-64 turns a position, int64, without whole turns.

    Its product with a position, in int64 arithmetic that overflows, is how far the pair has turned
    since its last whole turn. At position 1 000 000 the angle is right to 1e-12 radians, where an
    fp32 product of position and `inv_freq` is wrong by up to 0.05.
    """
    frequency = inv_freq.double() * scale
    coarse = frequency.float().double()
    parts = coarse, frequency - coarse
    # exact: 24 or 29 bits times 24
    products = [part * piece for part in parts for piece in _TURNS_IN_A_RADIAN]
    if is_traced():  # Inductor makes one kernel of this; a stack would be a second one
        return sum(map(_less_whole_turns, products))
    return _less_whole_turns(torch.stack(products)).sum(0)


def _less_whole_turns(turns: Tensor) -> Tensor:
    """From turns, fp64, to units of 2^-64 turns, int64."""
    return ((turns - turns.round()) * 2.0**64).round().long()


def radians(turns: Tensor, position: Tensor, dtype: torch.dtype) -> Tensor:
    """Angles of `in_turns`, but for whole turns, which int64's overflow drops.

    `position`: (..., 1), or (..., d2 / 2) with a position of its own for each pair.
    """
    turned = position * turns
    if dtype == torch.float64:
        return turned.double() * (2 * math.pi * 2.0**-64)
    return (turned >> 32).to(dtype) * (2 * math.pi * 2.0**-32)


def for_both_members(angles: Tensor, interleaved: bool) -> Tensor:
    """Of one angle a pair (..., d2 / 2), one for each of its members (..., d2)."""
    return angles.repeat_interleave(2, -1) if interleaved else torch.cat((angles, angles), -1)


# Tables that are known to have one column per pair


class AnglesPerPair(NamedTuple):
    """A table of angles that is known to have one column per pair."""

    angles: Tensor  # (s2, 1, 1, d2 / 2)


class CosSinPerPair(NamedTuple):
    """Cosines and sines that are known to have one column per pair."""

    cos: Tensor  # (s2, d2 / 2)
    sin: Tensor


PER_PAIR = AnglesPerPair, CosSinPerPair


# Frequencies that change, in compiled code that a checkpoint around it runs again.
#
# PyTorch traces a call once, so what an eager call finds out about its checkpoint, a compiled one
# has to ask each time it runs: by an operator, which torch.compile does not look into.

# A copy of the package, imported under another name, has operators of its own.
NAMESPACE = __name__.partition(".")[0]


@dataclass
class _Runs:
    """What a region of checkpointing asked for in its first run, in that order."""

    first: list[Tensor] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)  # how often so far, by each backward


_OF_REGIONS: weakref.WeakKeyDictionary[object, _Runs] = weakref.WeakKeyDictionary()


@torch.library.custom_op(f"{NAMESPACE}::turns_of_first_run", mutates_args=())
def turns_of_first_run(turns: Tensor) -> Tensor:
    """`turns` as they are now; or, where a checkpoint recomputes this call, as they were.

    Raises:
        RuntimeError: a backward runs, and there is no first run to know them by.
    """
    region, runs_again = checkpointed_region()
    runs = None if region is None else _OF_REGIONS.setdefault(region, _Runs())
    if runs_again and runs.first:
        backward = backward_that_runs()
        turns = runs.first[runs.asked.setdefault(backward, 0)]
        runs.asked[backward] += 1
    elif is_in_backward():
        raise RuntimeError(REFUSED)
    elif runs is not None:
        runs.first.append(turns.clone())  # not what is returned, whose memory Inductor may reuse
    return turns.clone()


@turns_of_first_run.register_fake
def _(turns: Tensor) -> Tensor:
    return torch.empty_like(turns)


REFUSED = (
    "freqs adapts to positions, and is used in a backward, where another forward may have changed "
    "it; accepted: adapt first, then torch.utils.checkpoint with use_reentrant=False around calls "
    "with freqs, or around calls with a table that was made before, such as "
    "freqs.cos_sin_at(position_ids)"
)
