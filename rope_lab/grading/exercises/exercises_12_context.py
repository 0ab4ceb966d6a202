"""Notebook 12: a configuration's frequencies."""
# ruff: noqa: F821 (the letters of shapes)

from functools import partial

import torch

from ..spec import spec
from .exercises_01 import frequencies

FACTOR, TRAINED, LOW, HIGH = 8.0, 256, 1.0, 4.0  # as the exercise says


def _blended(d, base, turn=2 * torch.pi, blend="straight"):
    """Frequencies with the pairs between LOW and HIGH turns blended; the defaults are right."""
    theta = frequencies.function(d, base)
    turns = TRAINED * theta / turn
    kept = (turns - LOW) / (HIGH - LOW)
    if blend != "without ends":
        kept = kept.clamp(0, 1)
    if blend == "swapped":
        kept = 1 - kept
    elif blend == "none, kept":
        kept = (turns >= LOW).double()
    elif blend == "none, slowed":
        kept = (turns > HIGH).double()
    elif blend == "of wavelengths":
        return theta / (kept + (1 - kept) * FACTOR)
    return kept * theta + (1 - kept) * theta / FACTOR


def _linear(d, base):
    return frequencies.function(d, base) / FACTOR


def _other_base(d, base):
    return frequencies.function(d, base * FACTOR ** (d / (d - 2)))


@spec(
    mistakes={
        "linear: every pair is slowed down": _linear,
        "NTK: another base": _other_base,
    }
    | {
        words: partial(_blended, **wrong)
        for words, wrong in {
            "the wrong pairs: fast ones are slowed down, and slow ones are kept": {
                "blend": "swapped"
            },
            "gamma leaves 0 to 1: below 1 turn it is 0, and above 4 turns 1": {
                "blend": "without ends"
            },
            "no blend: every pair of 1 turn or more is kept": {"blend": "none, kept"},
            "no blend: every pair of 4 turns or fewer is slowed down": {"blend": "none, slowed"},
            "wavelengths are blended, not frequencies": {"blend": "of wavelengths"},
            "2 pi is missing: an angle of 1 is not a turn": {"turn": 1.0},
        }.items()
    }
)
def frequencies_of_llama3(d: "number (d)", base: "number (base)"):
    """The angles per position of d/2 pairs, scaled by 8 past 256 positions as Llama 3 does it."""
    return _blended(d, base)
