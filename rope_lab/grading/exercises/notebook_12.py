"""Notebook 12: roundings, a kernel for heads before positions, frequencies, factors."""
# ruff: noqa: F821 (the letters of shapes)

import math
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding

from ..spec import spec
from .definitions import rope, rope_gradient, which_of
from .notebook_01 import frequencies

_LEFT_OUT = ("part of the head rotated", "one gradient for all")
_MEMORY = "the wrong layout: the kernel reads memory as (s, b, h, d), and it is still (b, h, s, d)"
_FIRST = "the wrong layout: the kernel takes the first dimension for positions, and it is b"


def _memory_as_it_is(x, angles, rotate=rope.function):
    b, h, s, d = x.shape
    return rotate(x.reshape(s, b, h, d), angles).reshape(b, h, s, d)


def _sequences_for_positions(x, angles):
    return rope.function(x, angles)


def _gradient_of_memory_as_it_is(grad, angles):
    return _memory_as_it_is(grad, angles, rope_gradient.function)


# The kernel of the climb wants contiguous rows, so a copy is no waste: `loads` and `beside`.
@spec(
    leave_out=_LEFT_OUT,
    kernel=True,
    launches=1,
    loads=0,
    beside=("clone",),
    mistakes={_MEMORY: _memory_as_it_is, _FIRST: _sequences_for_positions},
)
def rope_of_heads_first(x: "(b, h, s, d)", angles: "angles (s2, 1, 1, d2)"):
    """`rope` of (b, h, s, d), the layout of attention."""
    return rope.function(x.permute(2, 0, 1, 3), angles).permute(1, 2, 0, 3)


@spec(
    leave_out=_LEFT_OUT,
    kernel=True,
    launches=1,
    loads=0,
    beside=("clone",),
    mistakes={_MEMORY: _gradient_of_memory_as_it_is},
)
def rope_gradient_of_heads_first(grad: "(b, h, s, d)", angles: "angles (s2, 1, 1, d2)"):
    """The transpose of `rope_of_heads_first`."""
    return rope_gradient.function(grad.permute(2, 0, 1, 3), angles).permute(1, 2, 0, 3)


_FUSED = (
    "no PyTorch operator fuses a multiply-add (C's bits are the same here, because products of "
    "bf16 numbers are exact in fp32)"
)

# exercise 2: the rounding of three functions
ROUNDING = {
    "right": ["promoted", "model", "upcast"],
    "choices": ("once", "upcast", "promoted", "model"),
    "hint": "in which dtype is each product, and how many casts of x have a gradient?",
    "mistakes": {
        _FUSED: 3 * ["once"],
        "cos is fp32 here, so the products are not rounded to the dtype of x": [
            *("model", None, "model")
        ],
        "x is promoted once for each product, so two gradients are rounded, and then added": [
            *("upcast", None, None)
        ],
        "nothing here is fp32, so each product is rounded": [None, "upcast", None],
        "its gradient is rounded so, but forward no product here is fp32": [None, "promoted", None],
        "x is cast once, so its gradient is rounded once": [None, None, "promoted"],
    },
}


# a configuration's frequencies
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


# which of five models forgets its attention factor
HEAD_DIM = 32
_YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "original_max_position_embeddings": 256}
_ASKED = {  # factor, and what else the configuration says
    "A": {"factor": 8.0},
    "B": {"factor": 16.0},
    "C": {"factor": 4.0, "attention_factor": 1.5},
    "D": {"factor": 32.0},
    "E": {"factor": 64.0},
}
CONFIGS = {
    name: {
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 256 * int(asked["factor"]),
        "rope_parameters": _YARN | asked,
    }
    for name, asked in _ASKED.items()
}
_MADE = dict(
    zip("ABCDE", ("queries only", "none", "the default", "forgotten", "twice"), strict=True)
)


def _rotated(q: Tensor, k: Tensor, positions: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Queries and keys (s, d) at positions (s,), as the model of that name rotates them."""
    rope, made = RotaryPositionEmbedding.from_config(CONFIGS[name]), _MADE[name]
    factor = 0.1 * math.log(_ASKED[name]["factor"]) + 1
    if made != "the default":
        factor = rope.attention_factor
    of_q, of_k = {
        "queries only": (factor, 1.0),
        "forgotten": (1.0, 1.0),
        "twice": (factor**2, factor**2),
    }.get(made, (factor, factor))
    angles = positions[:, None].double() * rope.inv_freq.double()
    cos, sin = angles.cos(), angles.sin()
    turned = []
    for x, scale in ((q, of_q), (k, of_k)):
        first, second = x.double().chunk(2, dim=-1)
        y = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        turned.append((scale * y).to(x.dtype))
    return turned[0], turned[1]


ROTATIONS = {name: partial(_rotated, name=name) for name in CONFIGS}
_SIGNS = {  # how each mistake shows
    "none": "then q and k would both be longer by from_config's factor",
    "forgotten": "with that mistake, q and k would keep their lengths",
    "queries only": "with that mistake, k would keep its length, and q would not",
    "twice": "with that mistake, q and k would be longer by the square of the factor",
    "the default": "with that mistake, the factor that the configuration states is not used",
}
WHICH_FACTOR = which_of(
    _SIGNS,
    right=list(_MADE.values()),
    hint="the lengths of q and of k, after over before, next to from_config's factor",
)
