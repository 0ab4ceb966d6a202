"""Arithmetic with rows in three pieces (see `norm_rows.py`): weights, products, norm, rotation."""

import triton
import triton.language as tl

from .norm_rows import pointer_of, tail_columns
from .parts import turn


@triton.jit
def zero_outside(
    row,  # its three pieces, fp32 or fp64
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
):
    """The same with 0 where there is no element, for sums."""
    first, second, tail = row
    is_pair = exists & (tl.arange(0, first.shape[2]) < HALF)[None, None, :]
    first, second = tl.where(is_pair, first, 0), tl.where(is_pair, second, 0)
    if TAIL > 0:
        tail = tl.where(exists & (tl.arange(0, tail.shape[2]) < TAIL)[None, None, :], tail, 0)
    return first, second, tail


@triton.jit
def computed(
    row,  # its three pieces, in the stored dtype
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
):
    """The pieces in fp32 (fp64 for fp64), and 0 where there is no element."""
    COMPUTED: tl.constexpr = tl.float64 if row[0].dtype == tl.float64 else tl.float32
    row = row[0].to(COMPUTED), row[1].to(COMPUTED), row[2].to(COMPUTED)
    return zero_outside(row, exists, HALF, TAIL)


@triton.jit
def load_weights(
    ptr,  # (d,) or (h, d), contiguous
    row,  # (BLOCK_R, 1): rows of this program, heads or heads of all entries
    heads,  # of the tensor
    OFFSET: tl.constexpr,  # is added
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Offset plus weight of a row's three pieces, each (1, BLOCK_R or 1, columns)."""
    D: tl.constexpr = 2 * HALF + TAIL
    if PER_HEAD:
        ptr += ((row % heads).to(tl.int64) * D)[None, :, :]
    pair = tl.arange(0, BLOCK_HALF)
    index1, index2 = (2 * pair, 2 * pair + 1) if INTERLEAVED else (pair, pair + HALF)
    first = factor_at(ptr, START + index1, pair < HALF, OFFSET, COMPUTED)
    second = factor_at(ptr, START + index2, pair < HALF, OFFSET, COMPUTED)
    tail = tl.full((1, 1, 1), 1, COMPUTED)
    if TAIL > 0:
        element, is_tail = tail_columns(START, HALF, TAIL, BLOCK_TAIL)
        tail = factor_at(ptr, element, is_tail, OFFSET, COMPUTED)
    return first, second, tail


@triton.jit
def weights_of(
    is_k,  # whether this program has rows of k
    q_ptr,  # as `load_weights` takes it; or None, then there are none
    k_ptr,
    row,  # (BLOCK_R, 1): rows of this program, heads or heads of all entries
    heads,  # of the tensor
    OFFSET: tl.constexpr,  # is added
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    COMPUTED: tl.constexpr,  # fp32 or fp64
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Factors of a row's three pieces: those of q or of k, or 1."""
    one = tl.full((1, 1, 1), 1, COMPUTED)
    factors = one, one, one
    if q_ptr is not None:
        factors = load_weights(
            *(pointer_of(is_k, q_ptr, k_ptr), row, heads, OFFSET, PER_HEAD, COMPUTED),
            *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, INTERLEAVED),
        )
    return factors


@triton.jit
def factor_at(
    ptr,  # where the weights start: a pointer, or (1, BLOCK_R, 1) pointers
    element,  # (columns,): of which elements
    exists,  # (columns,): whether there is such an element
    OFFSET: tl.constexpr,  # is added
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Offset plus weight, (1, BLOCK_R or 1, columns)."""
    weight = tl.load(ptr + element[None, None, :], exists[None, None, :], other=0)
    return weight.to(COMPUTED) + OFFSET


@triton.jit
def times(
    row,  # three pieces
    factors,  # three pieces that broadcast with them
):
    """The product, piece by piece."""
    return row[0] * factors[0], row[1] * factors[1], row[2] * factors[2]


@triton.jit
def dot(
    row,  # three pieces
    other,  # three pieces
    TAIL: tl.constexpr,  # elements that do not turn
):
    """The sum of the products of all elements of each row, (BLOCK_S, BLOCK_R, 1)."""
    total = tl.sum(row[0] * other[0] + row[1] * other[1], 2)
    if TAIL > 0:
        total += tl.sum(row[2] * other[2], 2)
    return total[:, :, None]


@triton.jit
def rounded(
    row,  # three pieces in fp32
    STORED: tl.constexpr,  # a dtype
):
    """Round to the stored dtype, and go on in the computed one."""
    COMPUTED: tl.constexpr = row[0].dtype
    first, second = row[0].to(STORED).to(COMPUTED), row[1].to(STORED).to(COMPUTED)
    return first, second, row[2].to(STORED).to(COMPUTED)


@triton.jit
def normalized(
    row,  # three pieces
    rstd,  # 1 / rms of each row, (BLOCK_S, BLOCK_R, 1)
    weights,  # offset plus weight: three pieces
    LIKE_MODEL: tl.constexpr,  # round both products
    STORED: tl.constexpr,  # the dtype to which they are rounded
):
    """The row over its rms, times the weights."""
    row = times(row, (rstd, rstd, rstd))
    if LIKE_MODEL:
        row = rounded(row, STORED)
    row = times(row, weights)
    if LIKE_MODEL:
        row = rounded(row, STORED)
    return row


@triton.jit
def turn_row(
    row,  # its three pieces
    angles,  # as `angles_of_tile` returns them
    PACKED: tl.constexpr,  # tokens past the last sequence pass through
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
    LIKE_MODEL: tl.constexpr,  # round the products too
    STORED: tl.constexpr,  # the dtype to which they are rounded
):
    """Rotate the pairs of a row; its tail passes through."""
    x1, x2, tail = row
    cos1, sin1, cos2, sin2, in_sequence = angles
    if LIKE_MODEL:  # no multiply-add is fused: the compiler is told so
        if INVERSE:
            sin1, sin2 = -sin1, -sin2
        a1, b1, _ = rounded((x1 * cos1, x2 * sin1, tail), STORED)
        a2, b2, _ = rounded((x2 * cos2, x1 * sin2, tail), STORED)
        y1, y2, _ = rounded((a1 - b1, a2 + b2, tail), STORED)
    else:
        y1, y2 = turn(x1, x2, cos1, sin1, cos2, sin2, TRANSPOSE, INVERSE)
    if PACKED:
        turns = in_sequence[:, None, None]
        y1, y2 = tl.where(turns, y1, x1), tl.where(turns, y2, x2)
    return y1, y2, tail
