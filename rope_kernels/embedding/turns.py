"""Frequencies in whole numbers: angles at any position, without the rounding of large products."""

import math

import torch
from torch import Tensor

from ..machine.modes import is_traced

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
    """Angles of `in_turns` at `position`, (..., 1), without whole turns: int64 overflows."""
    turned = position * turns
    if dtype == torch.float64:
        return turned.double() * (2 * math.pi * 2.0**-64)
    return (turned >> 32).to(dtype) * (2 * math.pi * 2.0**-32)


def for_both_members(angles: Tensor, interleaved: bool) -> Tensor:
    """Of one angle a pair (..., d2 / 2), one for each of its members (..., d2)."""
    return angles.repeat_interleave(2, -1) if interleaved else torch.cat((angles, angles), -1)
