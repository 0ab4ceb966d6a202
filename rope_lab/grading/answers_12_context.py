"""Notebook 12's exercise on attention factors."""

import math
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding

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
MISTAKES = ("none", "forgotten", "queries only", "twice", "the default")
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
WHICH_FACTOR = {
    "right": list(_MADE.values()),
    "choices": MISTAKES,
    "hint": "the lengths of q and of k, after over before, next to from_config's factor",
    "mistakes": {words: 5 * [mistake] for mistake, words in _SIGNS.items()},
}
