"""Arithmetic with the elements of rows: weights, products, norm, rotation.

They come in three pieces: `x`, `other`, `factors` and `weights` are `Pieces`.
"""

import triton
import triton.language as tl

from .parts import pointer_of, tail_elements, turn, turn_in_steps
from .values import Pieces


@triton.jit
def zero_outside(x, exists, head: tl.constexpr):
    """The elements in fp32 or fp64, and 0 where there is none, for sums. `exists` is of rows."""
    first, second, tail = x
    is_pair = exists & (tl.arange(0, first.shape[2]) < head.half)[None, None, :]
    first, second = tl.where(is_pair, first, 0), tl.where(is_pair, second, 0)
    if head.tail > 0:
        tail = tl.where(exists & (tl.arange(0, tail.shape[2]) < head.tail)[None, None, :], tail, 0)
    return Pieces(first, second, tail)


@triton.jit
def computed(x, exists, head: tl.constexpr):
    """Stored elements in fp32 (fp64 for fp64), and 0 where there is none. `exists` is of rows."""
    first, second, tail = x
    COMPUTED: tl.constexpr = tl.float64 if first.dtype == tl.float64 else tl.float32
    x = Pieces(first.to(COMPUTED), second.to(COMPUTED), tail.to(COMPUTED))
    return zero_outside(x, exists, head)


@triton.jit
def load_weights(
    ptr,  # of (d,), contiguous
    head: tl.constexpr,
    INTERLEAVED: tl.constexpr = False,  # a pair is elements 2i and 2i + 1, not i and i + half
    OFFSET: tl.constexpr = 0.0,  # is added
    COMPUTED: tl.constexpr = tl.float32,  # fp32 or fp64
):
    """Offset plus weight, `Pieces` of (1, 1, columns)."""
    pair = tl.arange(0, head.columns)
    index1, index2 = (2 * pair, 2 * pair + 1) if INTERLEAVED else (pair, pair + head.half)
    is_pair = pair < head.half
    first = factor_at(ptr, head.start + index1, is_pair, OFFSET, COMPUTED)
    second = factor_at(ptr, head.start + index2, is_pair, OFFSET, COMPUTED)
    tail = tl.full((1, 1, 1), 1, COMPUTED)
    if head.tail > 0:
        element, is_tail = tail_elements(head)
        tail = factor_at(ptr, element, is_tail, OFFSET, COMPUTED)
    return Pieces(first, second, tail)


@triton.jit
def weights_of(
    mine,  # or a `Share`
    q_ptr,  # (d,), contiguous; or None, then there are no weights
    k_ptr,  # the same of k
    head: tl.constexpr,
    norm: tl.constexpr,  # or a `NormBackward`
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """Factors of the elements: weights of q or of k, or 1."""
    one = tl.full((1, 1, 1), 1, COMPUTED)
    factors = Pieces(one, one, one)
    if q_ptr is not None:
        INTERLEAVED: tl.constexpr = (
            head.writes_interleaved if norm.after else head.reads_interleaved
        )
        ptr = pointer_of(mine.is_k, q_ptr, k_ptr)
        factors = load_weights(ptr, head, INTERLEAVED, norm.weight_offset, COMPUTED)
    return factors


@triton.jit
def factor_at(ptr, element, exists, OFFSET: tl.constexpr, COMPUTED: tl.constexpr):
    """Offset plus weight of some elements, (1, 1, columns).

    `element` and `exists` are (columns,). `ptr` is where the weights start.
    """
    weight = tl.load(ptr + element[None, None, :], exists[None, None, :], other=0)
    return weight.to(COMPUTED) + OFFSET


@triton.jit
def times(x, factors):
    """The product, piece by piece."""
    return Pieces(x[0] * factors[0], x[1] * factors[1], x[2] * factors[2])


@triton.jit
def times_number(x, number):
    """The product with one number for each row, (positions, rows, 1)."""
    return Pieces(x[0] * number, x[1] * number, x[2] * number)


@triton.jit
def dot(x, other, TAIL: tl.constexpr):
    """The sum of the products of all elements of each row, (positions, rows, 1)."""
    total = tl.sum(x[0] * other[0] + x[1] * other[1], 2)
    if TAIL > 0:
        total += tl.sum(x[2] * other[2], 2)
    return total[:, :, None]


@triton.jit
def rounded(x, STORED: tl.constexpr):
    """Round to the stored dtype, and go on in the computed one."""
    first, second, tail = x
    COMPUTED: tl.constexpr = first.dtype
    first, second = first.to(STORED).to(COMPUTED), second.to(STORED).to(COMPUTED)
    return Pieces(first, second, tail.to(STORED).to(COMPUTED))


@triton.jit
def normalized(
    x,
    rstd,  # 1 / rms of each row, (positions, rows, 1)
    weights,  # offset plus weight
    norm: tl.constexpr = None,  # which of the two products are rounded; None: neither
    STORED: tl.constexpr = None,  # the dtype to which they are rounded
):
    """The row over its rms, times the weights."""
    ROUNDS_NORMAL: tl.constexpr = norm is not None and norm.rounds_normal
    ROUNDS_PRODUCT: tl.constexpr = norm is not None and norm.rounds_product
    x = times_number(x, rstd)
    if ROUNDS_NORMAL:
        x = rounded(x, STORED)
    x = times(x, weights)
    if ROUNDS_PRODUCT:
        x = rounded(x, STORED)
    return x


@triton.jit
def turn_row(
    x,
    cos_sin,
    does_turn,  # (positions,): the other tokens pass through; or None: all turn
    TRANSPOSE: tl.constexpr = False,
    INVERSE: tl.constexpr = False,
):
    """Rotate the pairs of a row as `turn` does; its tail passes through."""
    x1, x2, tail = x
    y1, y2 = turn(x1, x2, cos_sin, TRANSPOSE, INVERSE)
    if does_turn is not None:
        y1 = tl.where(does_turn[:, None, None], y1, x1)
        y2 = tl.where(does_turn[:, None, None], y2, x2)
    return Pieces(y1, y2, tail)


@triton.jit
def turn_as_planned(
    x,
    cos_sin,
    does_turn,  # (positions,): the other tokens pass through; or None: all turn
    INVERSE: tl.constexpr,
    steps: tl.constexpr,
    STORED: tl.constexpr,  # the dtype of the row and of its rotation, if products are rounded
    TRANSPOSE: tl.constexpr = False,
):
    """Rotate the pairs of a row as its plan rounds; in steps, if nothing is fused."""
    if steps.fused:
        turned = turn_row(x, cos_sin, does_turn, TRANSPOSE, INVERSE)
    else:
        x1, x2, tail = x
        COMPUTED: tl.constexpr = x1.dtype
        MET: tl.constexpr = STORED if steps.rounds_products else COMPUTED
        y1, y2 = turn_in_steps(x1.to(MET), x2.to(MET), cos_sin, TRANSPOSE, INVERSE, MET, steps)
        y1, y2 = y1.to(COMPUTED), y2.to(COMPUTED)
        if does_turn is not None:
            y1 = tl.where(does_turn[:, None, None], y1, x1)
            y2 = tl.where(does_turn[:, None, None], y2, x2)
        turned = Pieces(y1, y2, tail)
    return turned


@triton.jit
def normalized_and_turned(
    x,  # rows in fp32 (fp64 for fp64)
    exists,  # of rows
    weights,  # offset plus weight
    cos_sin,
    does_turn,  # (positions,): the other tokens pass through; or None: all turn
    head: tl.constexpr,
    lookup: tl.constexpr,
    norm: tl.constexpr,
    steps: tl.constexpr,
    STORED: tl.constexpr,
):
    """Normalize and turn rows, or turn first; and 1 / rms of each row, (positions, rows, 1)."""
    if norm.after:
        x = turn_as_planned(x, cos_sin, does_turn, lookup.inverse, steps, STORED)
        x = zero_outside(x, exists, head)  # what isn't there may have met a NaN
    D: tl.constexpr = 2 * head.half + head.tail
    rstd = tl.rsqrt(dot(x, x, head.tail) * (1 / D) + norm.eps)
    x = normalized(x, rstd, weights, norm, STORED)
    if not norm.after:
        x = turn_as_planned(x, cos_sin, does_turn, lookup.inverse, steps, STORED)
    return x, rstd
