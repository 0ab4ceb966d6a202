"""Each token's angles in a kernel with a norm, and its position, which a forward may keep."""

import triton
import triton.language as tl

from .angles import cos_sin_of_pairs
from .parts import pairs_of_block, per_token
from .positions import positions


@triton.jit
def not_in_sequence():
    """In place of the position of a token past the last packed sequence."""
    return tl.full((), -0x8000000000000000, tl.int64)


@triton.jit
def positions_of_tokens(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # (seq_len, cu_seqlens or None, sequences, starts or None, ids or None, its strides, cp)
    MARKED: tl.constexpr,  # the ids are from `store_positions`
):
    """Each token's position, whether it is in a sequence, and whether it exists, (BLOCK_S,)."""
    seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp = where
    s_exists = s < seq_len
    position, in_sequence = positions(
        s, s_exists, b, seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp
    )
    if MARKED:
        in_sequence = position > not_in_sequence()
    return position, in_sequence, s_exists


@triton.jit
def angles_of_tile(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # as `positions_of_tokens` takes it
    table,  # (angles or cosines or turns, sines or None, strides, s2)
    STORED: tl.constexpr,  # dtype of the elements to rotate
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    MARKED: tl.constexpr,  # the ids are from `store_positions`
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    LIKE_MODEL: tl.constexpr,  # round cos and sin to the stored dtype
):
    """Of each token: its angles, as `turn_row` takes them, and its position, (BLOCK_S,) int64.

    The angles are cos and sin of both members, each (BLOCK_S, 1, BLOCK_HALF), and whether the
    token turns at all, (BLOCK_S,).
    """
    position, in_sequence, s_exists = positions_of_tokens(s, b, where, MARKED)
    pair, _, is_pair = pairs_of_block(HALF, BLOCK_HALF, 1)
    token = per_token(position, False), per_token(s_exists, False), b, table
    cos1, sin1, cos2, sin2 = cos_sin_of_pairs(
        *(token, TABLE_UNIT, pair, is_pair, HALF),
        *(ONE_PER_PAIR, INTERLEAVED, STORED, FAST_SINE),
    )
    if LIKE_MODEL:
        COMPUTED: tl.constexpr = cos1.dtype
        cos1, sin1 = cos1.to(STORED).to(COMPUTED), sin1.to(STORED).to(COMPUTED)
        cos2, sin2 = cos2.to(STORED).to(COMPUTED), sin2.to(STORED).to(COMPUTED)
    return (cos1, sin1, cos2, sin2, in_sequence), position


@triton.jit
def store_positions(
    ptr,  # (s,) int64
    s,  # (BLOCK_S,) int64: tokens of this tile
    position,  # (BLOCK_S,) int64
    in_sequence,  # (BLOCK_S,): whether they are in a packed sequence
    mask,  # (BLOCK_S,)
):
    """Keep the positions of packed tokens, for a backward that need not search for them again."""
    tl.store(ptr + s, tl.where(in_sequence, position, not_in_sequence()), mask)
