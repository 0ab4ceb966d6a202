"""Parts of kernels that give each token's cosines and sines: from a table, or from its position."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .values import Columns, CosSin


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
    position,  # (positions, 1), (1, columns) or (columns,), int64
    turns_ptr,  # (d2 / 2,) int64: frequencies, in 2^-64 turns per position
    pair,  # (columns,) int64: whose angles
    exists,  # (columns,): whether there is such a pair
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Angles in radians, from -pi to pi, (positions, columns) or (columns,)."""
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
    at,
    table,
    column,  # (columns,) int64: which columns
    exists,  # (columns,): whether there is such a column
    UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Angles twice, or cosines and sines: of each token, NaN where it is past the table."""
    mask = at.exists & (at.position >= 0) & (at.position < table.length) & exists
    row = (at.b * table.strides[0] + at.position * table.strides[1]) * UNIT
    offset = row + column * table.strides[2]
    loaded = tl.load(table.ptr + offset, mask, other=float("nan")).to(COMPUTED)
    sines = loaded
    if table.sin_ptr is not None:
        sines = tl.load(table.sin_ptr + offset, mask, other=float("nan")).to(COMPUTED)
    return loaded, sines


@triton.jit
def cos_sin_of_loaded(
    loaded,  # angles or cosines
    sines,  # beside cosines
    ARE_ANGLES: tl.constexpr,
    FAST_SINE: tl.constexpr,
    BITS: tl.constexpr,
):
    """Cosine and sine, ready to meet the elements: (positions or 1, 1, columns)."""
    if ARE_ANGLES:
        cos, sin = cos_sin_of(loaded, True, FAST_SINE, BITS)
    else:
        cos, sin = loaded, sines
    return for_all_rows(cos), for_all_rows(sin)


@triton.jit
def for_all_rows(x):
    """A block (positions, columns), (1, columns) or (columns,) as (positions or 1, 1, columns)."""
    return x[None, None, :] if len(x.shape) == 1 else x[:, None, :]


@triton.jit
def cos_sin(at, table, columns, lookup: tl.constexpr, STORED: tl.constexpr):
    """cos and sin of each token at some columns of the table: fp32, or fp64 for fp64 elements.

    The columns are pairs where frequencies stand in for a table. Each result has shape
    (positions, 1, columns), or (1, 1, columns) if each column has a position. A position past the
    table gives NaN.
    """
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    column, _, exists = columns
    if table.ptr.dtype.element_ty == tl.int64:
        angle = angle_from_turns(at.position, table.ptr, column, exists, COMPUTED)
        cos, sin = cos_sin_of(angle, False, lookup.fast_sine, BITS)
        if lookup.attention_factor is not None:
            cos, sin = cos * lookup.attention_factor, sin * lookup.attention_factor
        cos, sin = for_all_rows(cos), for_all_rows(sin)
    else:
        loaded, sines = load_columns(at, table, column, exists, lookup.unit, COMPUTED)
        ARE_ANGLES: tl.constexpr = table.sin_ptr is None
        cos, sin = cos_sin_of_loaded(loaded, sines, ARE_ANGLES, lookup.fast_sine, BITS)
    return cos, sin


@triton.jit
def cos_sin_of_both(at, table, columns, others, lookup: tl.constexpr, STORED: tl.constexpr):
    """`CosSin` at two sets of columns, all loaded before the first sine is evaluated.

    `others` are (columns,) int64, and exist where the first do. With a load after a sine, a program
    waits for memory twice: 4 to 14 points of a copy's speed.
    """
    COMPUTED: tl.constexpr = tl.float64 if STORED == tl.float64 else tl.float32
    BITS: tl.constexpr = STORED.primitive_bitwidth
    ARE_ANGLES: tl.constexpr = table.sin_ptr is None
    column, _, exists = columns
    loaded1, sines1 = load_columns(at, table, column, exists, lookup.unit, COMPUTED)
    loaded2, sines2 = load_columns(at, table, others, exists, lookup.unit, COMPUTED)
    cos1, sin1 = cos_sin_of_loaded(loaded1, sines1, ARE_ANGLES, lookup.fast_sine, BITS)
    cos2, sin2 = cos_sin_of_loaded(loaded2, sines2, ARE_ANGLES, lookup.fast_sine, BITS)
    return CosSin(cos1, sin1, cos2, sin2)


@triton.jit
def cos_sin_of_pairs(
    at, table, pairs, HALF: tl.constexpr, lookup: tl.constexpr, STORED: tl.constexpr
):
    """`CosSin` of each pair."""
    if lookup.one_per_pair:
        cos, sin = cos_sin(at, table, pairs, lookup, STORED)
        found = CosSin(cos, sin, cos, sin)
    else:
        first, second = pairs.number, pairs.number + HALF
        if lookup.interleaved:
            first, second = 2 * pairs.number, 2 * pairs.number + 1
        columns = Columns(first, pairs.row, pairs.exists)
        found = cos_sin_of_both(at, table, columns, second, lookup, STORED)
    return found
