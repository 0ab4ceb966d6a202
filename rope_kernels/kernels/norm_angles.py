"""Each token's angles in a kernel with a norm, and its position, which a forward may keep."""

import triton
import triton.language as tl

from .angles import cos_sin_of_pairs
from .parts import pairs_of_block, per_token
from .positions import find_positions
from .values import CosSin, TableRows, TokenAngles


@triton.jit
def not_in_sequence():
    """In place of the position of a token past the last packed sequence."""
    return tl.full((), -0x8000000000000000, tl.int64)


@triton.jit
def angles_of_tokens(
    tokens,
    given,
    table,
    head: tl.constexpr,
    lookup: tl.constexpr,
    STORED: tl.constexpr,
    MARKED: tl.constexpr = False,  # the ids are from `store_positions`
):
    """Where this program's tokens are, and cosines and sines of their pairs: `TokenAngles`."""
    position, in_sequence = find_positions(tokens, given)
    if MARKED:
        in_sequence = position > not_in_sequence()
    pairs = pairs_of_block(head, 1)
    at = TableRows(per_token(position, False), per_token(tokens.exists, False), tokens.b)
    cos_sin = cos_sin_of_pairs(at, table, pairs, head.half, lookup, STORED)
    return TokenAngles(position, in_sequence, cos_sin)


@triton.jit
def rounded_cos_sin(cos_sin, STORED: tl.constexpr):
    """The same rounded to the stored dtype, as a model does it."""
    cos1, sin1, cos2, sin2 = cos_sin
    COMPUTED: tl.constexpr = cos1.dtype
    cos1, sin1 = cos1.to(STORED).to(COMPUTED), sin1.to(STORED).to(COMPUTED)
    cos2, sin2 = cos2.to(STORED).to(COMPUTED), sin2.to(STORED).to(COMPUTED)
    return CosSin(cos1, sin1, cos2, sin2)


@triton.jit
def store_positions(
    ptr,  # (s,) int64
    tokens,
    found,  # `TokenAngles`
    row_block,  # this program's; the first one of its tokens stores
):
    """Keep the positions of packed tokens, for a backward that need not search for them again."""
    # A block of one: Triton's interpreter turns a scalar mask into integers, which 3.9 refuses.
    mask = tokens.exists & (tl.full((1,), row_block, tl.int32) == 0)
    tl.store(ptr + tokens.s, tl.where(found.in_sequence, found.position, not_in_sequence()), mask)
