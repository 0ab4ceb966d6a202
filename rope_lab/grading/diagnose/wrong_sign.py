"""The sign of the angles, or of what came out."""

import torch

from .evidence import Evidence


def sign(e: Evidence) -> str | None:
    """Of every angle, or of every element that is wrong. (`wrong_angle.py` has that of a sine.)"""
    if e.has_angles and e.got_is(e.expected_with_angles(torch.neg)):
        if e.is_gradient:
            return "a sign: it is the gradient for minus the angles; every sine has the wrong sign"
        return "a sign: it rotates by minus the angle"
    if e.close(e.got[e.wrong], -e.expected[e.wrong]):
        return "a sign: " + _opposite(e)
    return None


def _opposite(e: Evidence) -> str:
    """Which elements have the opposite sign."""
    has_sign = e.expected != 0
    if not (has_sign & ~e.wrong).any():
        return "every element has the opposite sign"
    for where, place in e.places.items():
        if torch.equal(e.wrong, has_sign & place):
            return f"what is wrong has the opposite sign, in {where}"
    return "what is wrong has the opposite sign"
