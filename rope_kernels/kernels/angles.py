"""Parts of kernels that give each token's cosines and sines: from a table, or from its position."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def cos_sin_of(
    angle,  # radians
    HAS_WHOLE_TURNS: tl.constexpr,  # the angle may be outside -pi to pi
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    BITS: tl.constexpr,  # of an element of the result
):
    """Cosine and sine, to 5e-7 for 16-bit elements, to 2e-7 for 32-bit, to the last for 64-bit."""
    if FAST_SINE and HAS_WHOLE_TURNS:
        # Remove whole turns first: the library's sine has a slow branch for large angles, and the
        # hardware's is accurate from -pi to pi. 2 pi comes in three pieces, two of them with few
        # bits: up to ten million radians, only the last fused multiply-add rounds.
        turns = tl.floor(tl.fma(angle, 0.15915494309189535, 0.5))
        angle = tl.fma(turns, -6.28125, angle)
        angle = tl.fma(turns, -0.0019350051879882812, angle)
        angle = tl.fma(turns, -3.019915981956753e-07, angle)
    if FAST_SINE and BITS == 16:
        return libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    return tl.cos(angle), tl.sin(angle)


@triton.jit
def angle_from_turns(
    position,  # (BLOCK_S, 1), (1, columns) or (columns,), int64
    turns_ptr,  # (d2 / 2,) int64: 2^-64 turns per position
    pair,  # (columns,) int64: whose angles
    exists,  # (columns,): whether there is such a pair
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Angles in radians, from -pi to pi, (BLOCK_S, columns) or (columns,)."""
    turns = tl.load(turns_ptr + pair, exists, other=0)

    # In units of 2^-64 turns, an int64 wraps around once per turn: its overflow removes whole turns
    # and nothing else. The upper 32 bits are all that fp32 can use.
    turned = position * turns
    if tl.float64 == COMPUTED:
        angle = turned.to(COMPUTED) * (6.283185307179586 * 2.0**-64)
    else:
        angle = (turned >> 32).to(tl.int32).to(COMPUTED) * (6.283185307179586 * 2.0**-32)
    return angle


@triton.jit
def load_columns(
    position,  # (BLOCK_S, 1), (1, columns) or (columns,), int64
    s_exists,  # the same shape: whether there is such a token
    b,  # int64, this program's batch entry
    table,  # (angles or cosines (b, s2, columns), sines or None, strides of b, s, d, s2)
    TABLE_UNIT: tl.constexpr,  # elements in which the strides of b and s are counted
    column,  # (columns,) int64: which columns
    exists,  # (columns,): whether there is such a column
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Angles twice, or cosines and sines: of each token, NaN where it is past the table."""
    table_ptr, sin_ptr, strides, s2 = table
    mask = s_exists & (position >= 0) & (position < s2) & exists
    row = (b * strides[0] + position * strides[1]) * TABLE_UNIT
    offset = row + column * strides[2]
    loaded = tl.load(table_ptr + offset, mask, other=float("nan")).to(COMPUTED)
    sines = loaded
    if sin_ptr is not None:
        sines = tl.load(sin_ptr + offset, mask, other=float("nan")).to(COMPUTED)
    return loaded, sines


@triton.jit
def cos_sin_of_loaded(
    loaded,  # angles or cosines
    sines,  # beside cosines
    ARE_ANGLES: tl.constexpr,
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    BITS: tl.constexpr,  # of an element to rotate
):
    """Cosine and sine, ready to meet the elements: (BLOCK_S or 1, 1, columns)."""
    if ARE_ANGLES:
        cos, sin = cos_sin_of(loaded, True, FAST_SINE, BITS)
    else:
        cos, sin = loaded, sines
    return for_all_rows(cos), for_all_rows(sin)


@triton.jit
def for_all_rows(
    x,  # (BLOCK_S, columns), (1, columns) or (columns,)
):
    """The same with a dimension for rows: (BLOCK_S or 1, 1, columns)."""
    return x[None, None, :] if len(x.shape) == 1 else x[:, None, :]


@triton.jit
def cos_sin(
    token,  # (position, s_exists, b, table), as `load_columns` takes them
    TABLE_UNIT: tl.constexpr,  # elements in which the strides of b and s are counted
    column,  # (columns,) int64: whose cosine and sine; of a module, the pairs
    exists,  # (columns,): whether there is such a column
    STORED: tl.constexpr,  # dtype of the elements to rotate
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
):
    """cos and sin of each token at some columns of the table: fp32, or fp64 for fp64 elements.

    Each has shape (BLOCK_S, 1, columns), and BLOCK_S is 1 if each column has a position. A
    position past the table gives NaN. A module's table is int64, (d2 / 2,): 2^-64 turns per
    position.
    """
    position, _, _, table = token
    table_ptr, sin_ptr, _, _ = table
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    if table_ptr.dtype.element_ty == tl.int64:
        angle = angle_from_turns(position, table_ptr, column, exists, COMPUTED)
        cos, sin = cos_sin_of(angle, False, FAST_SINE, BITS)
        cos, sin = for_all_rows(cos), for_all_rows(sin)
    else:
        found = load_columns(*token, TABLE_UNIT, column, exists, COMPUTED)
        cos, sin = cos_sin_of_loaded(*found, sin_ptr is None, FAST_SINE, BITS)
    return cos, sin


@triton.jit
def cos_sin_of_both(
    token,  # (position, s_exists, b, table), as `load_columns` takes them
    TABLE_UNIT: tl.constexpr,  # elements in which the strides of b and s are counted
    first,  # (columns,) int64: columns of the table
    second,  # (columns,) int64: other columns
    exists,  # (columns,): whether there are such columns
    STORED: tl.constexpr,  # dtype of the elements to rotate
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
):
    """cos and sin at two sets of columns, all loaded before the first sine is evaluated.

    With a load after a sine, a program waits for memory twice: 4 to 14 points of a copy's speed.
    """
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    ARE_ANGLES: tl.constexpr = token[3][1] is None
    found1 = load_columns(*token, TABLE_UNIT, first, exists, COMPUTED)
    found2 = load_columns(*token, TABLE_UNIT, second, exists, COMPUTED)
    cos1, sin1 = cos_sin_of_loaded(*found1, ARE_ANGLES, FAST_SINE, BITS)
    cos2, sin2 = cos_sin_of_loaded(*found2, ARE_ANGLES, FAST_SINE, BITS)
    return cos1, sin1, cos2, sin2


@triton.jit
def cos_sin_of_pairs(
    token,  # (position, s_exists, b, table), as `load_columns` takes them
    TABLE_UNIT: tl.constexpr,  # elements in which the strides of b and s are counted
    pair,  # (columns,) int64: whose cosines and sines
    exists,  # (columns,): whether there is such a pair
    HALF: tl.constexpr,  # number of pairs
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    INTERLEAVED: tl.constexpr,  # a pair has columns 2i and 2i + 1 of the table, not i and i + HALF
    STORED: tl.constexpr,  # dtype of the elements to rotate
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
):
    """cos1, sin1, cos2, sin2: of the first and the second member of each pair."""
    if ONE_PER_PAIR:
        cos1, sin1 = cos_sin(token, TABLE_UNIT, pair, exists, STORED, FAST_SINE)
        cos2, sin2 = cos1, sin1
    else:
        first, second = (2 * pair, 2 * pair + 1) if INTERLEAVED else (pair, pair + HALF)
        cos1, sin1, cos2, sin2 = cos_sin_of_both(
            token, TABLE_UNIT, first, second, exists, STORED, FAST_SINE
        )
    return cos1, sin1, cos2, sin2
