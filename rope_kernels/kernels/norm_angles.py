"""Each token's angles in a kernel with a norm, and its position, which a forward may keep."""

import triton
import triton.language as tl

from .angles import cos_sin_of_pairs
from .parts import pairs_of_block, per_token
from .positions import find_positions
from .values import CosSin, TableRows


@triton.jit
def not_in_sequence():
    """In place of the position of a token past the last packed sequence."""
    return tl.full((), -0x8000000000000000, tl.int64)


@triton.jit
def positions_of_tokens(
    tokens,  # `Tokens`
    given,  # `GivenPositions`
    MARKED: tl.constexpr,  # the ids are from `store_positions`
):
    """Each token's position, and whether it is in a sequence, (positions,)."""
    position, in_sequence = find_positions(tokens, given)
    if MARKED:
        in_sequence = position > not_in_sequence()
    return position, in_sequence


@triton.jit
def cos_sin_of_tokens(
    position,  # (positions,) int64, of each token
    tokens,  # `Tokens`
    table,  # `Table`
    head: tl.constexpr,  # `Head`
    lookup: tl.constexpr,  # `Lookup`
    STORED: tl.constexpr,  # dtype of the elements to rotate
):
    """`CosSin` of each token's pairs, each (positions, 1, columns)."""
    pairs = pairs_of_block(head, 1)
    at = TableRows(per_token(position, False), per_token(tokens.exists, False), tokens.b)
    return cos_sin_of_pairs(at, table, pairs, head.half, lookup, STORED)


@triton.jit
def rounded_cos_sin(
    cos_sin,  # `CosSin`
    STORED: tl.constexpr,  # a dtype
):
    """The same rounded to the stored dtype, as a model does it."""
    cos1, sin1, cos2, sin2 = cos_sin
    COMPUTED: tl.constexpr = cos1.dtype
    cos1, sin1 = cos1.to(STORED).to(COMPUTED), sin1.to(STORED).to(COMPUTED)
    cos2, sin2 = cos2.to(STORED).to(COMPUTED), sin2.to(STORED).to(COMPUTED)
    return CosSin(cos1, sin1, cos2, sin2)


@triton.jit
def store_positions(
    ptr,  # (s,) int64
    s,  # (positions,) int64: tokens of this tile
    position,  # (positions,) int64
    in_sequence,  # (positions,): whether they are in a packed sequence
    mask,  # (positions,)
):
    """Keep the positions of packed tokens, for a backward that need not search for them again."""
    tl.store(ptr + s, tl.where(in_sequence, position, not_in_sequence()), mask)
