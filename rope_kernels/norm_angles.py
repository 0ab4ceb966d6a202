"""Each token's angles in a kernel with a norm: asked for at one place, evaluated at another.

`cosines.py` does both at once. Here weights and elements are asked for in between.
"""

import triton
import triton.language as tl

from .cosines import cos_sin_of, cos_sin_of_loaded, for_all_rows, load_columns, radians_of_turns
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
def load_angles(
    tokens,  # what `positions_of_tokens` returns
    b,  # int64, this program's batch entry
    table,  # (angles or cosines or turns, sines or None, strides, s2)
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
):
    """What `angles_of` needs, for both members: angles twice, cosines and sines, or turns twice."""
    pair, _, is_pair = pairs_of_block(HALF, BLOCK_HALF, 1)
    token = per_token(tokens[0], False), per_token(tokens[2], False), b, table
    if table[0].dtype.element_ty == tl.int64:
        first1 = tl.load(table[0] + pair, is_pair, other=0)
        first2, second1, second2 = first1, first1, first1
    elif ONE_PER_PAIR:
        first1, second1 = load_columns(*token, TABLE_UNIT, pair, is_pair, COMPUTED)
        first2, second2 = first1, second1
    else:
        columns1, columns2 = (2 * pair, 2 * pair + 1) if INTERLEAVED else (pair, pair + HALF)
        first1, second1 = load_columns(*token, TABLE_UNIT, columns1, is_pair, COMPUTED)
        first2, second2 = load_columns(*token, TABLE_UNIT, columns2, is_pair, COMPUTED)
    return first1, second1, first2, second2


@triton.jit
def ask_for_angles(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # as `positions_of_tokens` takes it
    table,  # as `load_angles` takes it
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    MARKED: tl.constexpr,  # the ids are from `store_positions`
):
    """What `positions_of_tokens` and `load_angles` return: everything is issued, nothing used."""
    tokens = positions_of_tokens(s, b, where, MARKED)
    loaded = load_angles(
        tokens, b, table, COMPUTED, HALF, BLOCK_HALF, INTERLEAVED, ONE_PER_PAIR, TABLE_UNIT
    )
    return tokens, loaded


@triton.jit
def angles_of(
    loaded,  # what `load_angles` returns
    tokens,  # what `positions_of_tokens` returns
    STORED: tl.constexpr,  # dtype of the elements to rotate
    ARE_ANGLES: tl.constexpr,  # in the table; not cosines
    ONE_PER_PAIR: tl.constexpr,  # both members have the same angle
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    LIKE_MODEL: tl.constexpr,  # round cos and sin to the stored dtype
):
    """cos and sin of both members, each (BLOCK_S, 1, BLOCK_HALF), and whether tokens turn."""
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    first1, second1, first2, second2 = loaded
    if first1.dtype == tl.int64:
        angle = radians_of_turns(per_token(tokens[0], False), first1, COMPUTED)
        cos1, sin1 = cos_sin_of(angle, False, FAST_SINE, BITS)
        cos1, sin1 = for_all_rows(cos1), for_all_rows(sin1)
    else:
        cos1, sin1 = cos_sin_of_loaded(first1, second1, ARE_ANGLES, FAST_SINE, BITS)
    cos2, sin2 = cos1, sin1
    if not ONE_PER_PAIR:
        cos2, sin2 = cos_sin_of_loaded(first2, second2, ARE_ANGLES, FAST_SINE, BITS)
    if LIKE_MODEL:
        cos1, sin1 = cos1.to(STORED).to(COMPUTED), sin1.to(STORED).to(COMPUTED)
        cos2, sin2 = cos2.to(STORED).to(COMPUTED), sin2.to(STORED).to(COMPUTED)
    return cos1, sin1, cos2, sin2, tokens[1]


@triton.jit
def angles_of_tile(
    s,  # (BLOCK_S,) int64: tokens of this tile
    b,  # int64, this program's batch entry
    where,  # as `positions_of_tokens` takes it
    table,  # as `load_angles` takes it
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
    """`ask_for_angles`, then `angles_of` them."""
    COMPUTED: tl.constexpr = tl.float64 if tl.float64 == STORED else tl.float32
    tokens, loaded = ask_for_angles(
        *(s, b, where, table, COMPUTED, HALF, BLOCK_HALF),
        *(INTERLEAVED, ONE_PER_PAIR, TABLE_UNIT, MARKED),
    )
    return angles_of(loaded, tokens, STORED, table[1] is None, ONE_PER_PAIR, FAST_SINE, LIKE_MODEL)


@triton.jit
def store_positions(
    ptr,  # (s,) int64
    s,  # (BLOCK_S,) int64: tokens of this tile
    tokens,  # what `positions_of_tokens` returns
    mask,  # (BLOCK_S,)
):
    """Keep the positions of packed tokens, for a backward that need not search for them again."""
    tl.store(ptr + s, tl.where(tokens[1], tokens[0], not_in_sequence()), mask)
