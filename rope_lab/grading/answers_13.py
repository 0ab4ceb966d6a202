"""Notebook 13's exercises on clusters that take wrong positions, and on placements."""

from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, cp_positions

# exercise 2: what five clusters of four ranks do to q (s, b, h, d)
RANKS = 4
MISTAKES = ("none", "from zero", "other order", "other rank", "not put back")
_MADE = dict(
    zip("ABCDE", ("other order", "not put back", "none", "from zero", "other rank"), strict=True)
)


def _rotated(q: Tensor, made: str) -> Tensor:
    """q cut in zigzag order, rotated rank by rank, and put together."""
    rope = RotaryPositionEmbedding(q.shape[-1]).to(q.device)
    cut = partial(cp_positions, len(q), cp_size=RANKS, device=q.device)
    tokens = [cut(cp_rank=r) for r in range(RANKS)]
    positions = {
        "from zero": [torch.arange(len(x), device=q.device) for x in tokens],
        "other order": [cut(cp_rank=r, cp_order="contiguous") for r in range(RANKS)],
        "other rank": tokens[::-1],
    }.get(made, tokens)
    rows = [
        apply_rotary_pos_emb(q[mine], rope, position_ids=at[None])
        for mine, at in zip(tokens, positions, strict=True)
    ]
    if made == "not put back":
        return torch.cat(rows)
    return torch.cat(rows)[torch.cat(tokens).argsort()]


CLUSTERS = {name: partial(_rotated, made=made) for name, made in _MADE.items()}
WHICH_MISTAKE = {
    "right": list(_MADE.values()),
    "choices": MISTAKES,
    "hint": "rotate one row to each of the 16 positions, and find which one each token got",
    "mistakes": {
        "then token i would be at position i, for every i": 5 * ["none"],
        "then each rank's first token would be at position 0": 5 * ["from zero"],
        "then rank 0 would have positions 0, 1, 2, 3 for tokens 0, 1, 14, 15": 5 * ["other order"],
        "then token 0 would be at position 6, where rank 3's first token belongs": (
            5 * ["other rank"]
        ),
        "then row 2 of the result would be token 14, of rank 0, at its own position": (
            5 * ["not put back"]
        ),
    },
}

# exercise 4: placements on a mesh of two, of q (b, s, h, d) with Shard(1) and what goes with it
WHICH_PLACEMENT = {
    "right": ["Shard(1)", "Replicate()", "Partial()", "Shard(1)", "Partial()"],
    "choices": ("Shard(1)", "Replicate()", "Partial()"),
    "hint": "does a rank have a part of it, all of it, or a share of a sum?",
    "mistakes": {
        "then every rank would have all tokens, and that takes an exchange": [
            *("Replicate()", None, None, None, None)
        ],
        "a rank has whole rows of its tokens, and no share of a sum": [
            *("Partial()", None, None, None, None)
        ],
        "a weight (d,) has no dimension of tokens; each row needs all of it": [
            *(None, "Shard(1)", None, None, None)
        ],
        "then each rank would hold a summand of the weight": [
            *(None, "Partial()", None, None, None)
        ],
        "it has the shape (d,): no dimension of tokens to cut": [
            *(None, None, "Shard(1)", None, None)
        ],
        "a rank has only the rows of its own tokens to sum over": [
            *(None, None, "Replicate()", None, None)
        ],
        "then each rank would read the first rows' positions": [
            *(None, None, None, "Replicate()", None)
        ],
        "positions are not added up": [None, None, None, "Partial()", None],
        "the cut dimension is the batch now, and the weight has none": [
            *(None, None, None, None, "Shard(1)")
        ],
        "a rank has the rows of some sequences only": [*(None, None, None, None, "Replicate()")],
    },
}
