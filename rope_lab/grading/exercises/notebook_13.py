"""Notebook 13: positions of a rank, wrong clusters, a kernel on its shard, placements."""
# ruff: noqa: F821 (the letters of shapes)

from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, cp_positions

from ..spec import STRIDED, Case, spec
from .definitions import BLOCKS, rope, rope_gradient, which_of

_USUAL = (  # cases that know nothing of ranks
    *BLOCKS,
    *STRIDED,
    "small and plain",
    "several sequences",
    "one head",
    "part of the head rotated",
    "a table longer than the sequence",
    "half precision",
    "one gradient for all",
)


def _case(name, s, n, r, dtype=torch.float32, **sizes):
    """A sequence of s tokens on n ranks, seen by rank r; a shard has as many as fit."""
    return Case(name, {"d": 8, "b": 1, "h": 2, "n": n, "r": r} | sizes | {"s": s}, dtype)


def _chunks(s, n, first, second):
    """Tokens of two of 2n chunks."""
    chunk = s // (2 * n)
    return torch.cat([torch.arange(chunk) + chunk * number for number in (first, second)])


def _zigzag(s, n, r):
    return _chunks(s, n, r, 2 * n - 1 - r)


def _contiguous(s, n, r):
    return torch.arange(s // n) + r * (s // n)


def _round_robin(s, n, r):
    return torch.arange(r, s, n)


def _late_chunk_first(s, n, r):
    return _chunks(s, n, 2 * n - 1 - r, r)


def _one_too_far(s, n, r):
    return _chunks(s, n, r, 2 * n - r)


def _half_a_sequence_on(s, n, r):
    return _chunks(s, n, r, n + r)


def _late_chunk_backwards(s, n, r):
    first, second = _zigzag(s, n, r).chunk(2)
    return torch.cat((first, second.flip(0)))


@spec(
    leave_out=_USUAL,
    extra=(
        _case("the second of four ranks", 16, 4, 1),
        _case("the first of two ranks", 8, 2, 0),
        _case("the third of four ranks", 48, 4, 2),
        _case("one rank alone", 6, 1, 0),
    ),
    mistakes={
        "contiguous: rank r has chunk r of n": _contiguous,
        "round_robin: rank r has tokens r, r + n, ...": _round_robin,
        "the late chunk comes first": _late_chunk_first,
        "the late chunk is one too far: the last of 2n chunks is number 2n - 1": _one_too_far,
        "the late chunk is chunk n + r, which is not chunk r from the end": _half_a_sequence_on,
        "the late chunk runs backwards": _late_chunk_backwards,
    },
)
def positions_of_a_rank(s: "number (s)", n: "number (n)", r: "number (r)"):
    """In zigzag order: chunks r and 2n - 1 - r of 2n; int64."""
    return _zigzag(s, n, r)


def _turned(x, table, n, r, order="zigzag", rotate=rope.function):
    """With the rows of the table that belong to the tokens in another order, or to another rank."""
    s = len(table)
    rows = {
        "zigzag": lambda: _zigzag(s, n, r),
        "from zero": lambda: torch.arange(len(x)),
        "contiguous": lambda: _contiguous(s, n, r),
        "round_robin": lambda: _round_robin(s, n, r),
        "of another rank": lambda: _zigzag(s, n, n - 1 - r),
        "late chunk first": lambda: _late_chunk_first(s, n, r),
    }[order]()
    return rotate(x, table[rows])


def _turned_back(grad, table, n, r, order="zigzag"):
    return _turned(grad, table, n, r, order, rope_gradient.function)


_WRONG_ROWS = {
    "every rank counts from 0: which rows of the table belong to this shard?": "from zero",
    "contiguous: the rows of chunk r of n": "contiguous",
    "round_robin: rows r, r + n, ...": "round_robin",
    "the rows of another rank, n - 1 - r": "of another rank",
    "the rows of the late chunk come first": "late chunk first",
}
_FORTH = {"the map itself, where its transpose is asked for": _turned}


def _asked(turned, more):
    wrong = {words: partial(turned, order=order) for words, order in _WRONG_ROWS.items()}
    return {
        "leave_out": _USUAL,
        "extra": (
            _case("the second of two ranks", 4, 2, 1, s2=8),
            _case("the first of two ranks", 4, 2, 0, s2=8),
            _case("the third of four ranks", 6, 4, 2, s2=24, b=2, h=3, d=24),
            _case("two ranks in half precision", 6, 2, 1, torch.float16, s2=12, h=3),
            _case("one rank alone", 6, 1, 0, s2=6),
        ),
        "kernel": True,
        "launches": 1,
        "loads": 0,
        "beside": ("index",),
        "mistakes": wrong | more,
    }


@spec(**_asked(_turned, {}))
def rope_of_a_shard(
    x: "(s, b, h, d)", table: "angles (s2, 1, 1, d2)", n: "number (n)", r: "number (r)"
):
    """`rope` of the tokens of rank r, with a table of the whole sequence."""
    return _turned(x, table, n, r)


@spec(**_asked(_turned_back, _FORTH))
def rope_gradient_of_a_shard(
    grad: "(s, b, h, d)", table: "angles (s2, 1, 1, d2)", n: "number (n)", r: "number (r)"
):
    """The transpose of `rope_of_a_shard`."""
    return _turned_back(grad, table, n, r)


# exercise 2: what five clusters of four ranks do to q (s, b, h, d)
RANKS = 4
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
WRONG_CLUSTERS = which_of(
    {
        "none": "then token i would be at position i, for every i",
        "from zero": "then each rank's first token would be at position 0",
        "other order": "then rank 0 would have positions 0, 1, 2, 3 for tokens 0, 1, 14, 15",
        "other rank": "then token 0 would be at position 6, where rank 3's first token belongs",
        "not put back": (
            "then row 2 of the result would be token 14, of rank 0, at its own position"
        ),
    },
    right=list(_MADE.values()),
    hint="rotate one row to each of the 16 positions, and find which one each token got",
)

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
