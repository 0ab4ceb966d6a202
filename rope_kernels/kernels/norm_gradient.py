"""Parts of the backward kernel with a norm: a row's gradients, and the sums of the weight's."""

import triton
import triton.language as tl

from .norm_arithmetic import dot, times, times_number
from .norm_rows import store_row
from .values import Row, Rows


@triton.jit
def input_gradient(
    grad,  # of the normalized row times the weights: `Row`
    normal,  # the normalized row: `Row`
    rstd,  # 1 / rms of each row, (positions, rows, 1)
    weights,  # offset plus weight: `Row`
    head: tl.constexpr,  # `Head`
    norm: tl.constexpr,  # `NormBackward`
):
    """Gradients of the row that was normalized, and of a sum of squares from elsewhere."""
    grad = times(grad, weights)
    along = dot(grad, normal, head.tail)
    if not norm.given:  # a row that grows is scaled down: no gradient along the row is left
        mean = along * (1 / norm.dim)
        first, second = grad.first - normal.first * mean, grad.second - normal.second * mean
        grad = Row(first, second, grad.tail - normal.tail * mean)
    grad = times_number(grad, rstd)
    return grad, along * rstd * rstd * (-0.5 / norm.dim)


@triton.jit
def zeros_of_rows(
    tile: tl.constexpr,  # `Tile`
    head: tl.constexpr,  # `Head`
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """A tile of zeros, a `Row`."""
    POSITIONS: tl.constexpr = tile.positions
    ROWS: tl.constexpr = tile.rows
    COLUMNS: tl.constexpr = head.columns
    TAIL_COLUMNS: tl.constexpr = head.tail_columns if head.tail_columns > 0 else 1
    first = tl.zeros((POSITIONS, ROWS, COLUMNS), COMPUTED)
    second = tl.zeros((POSITIONS, ROWS, COLUMNS), COMPUTED)
    tail = tl.zeros((POSITIONS, ROWS, TAIL_COLUMNS), COMPUTED)
    return Row(first, second, tail)


@triton.jit
def plus_products(
    sums,  # `Row`
    row,  # `Row`
    other,  # `Row`
    TAIL: tl.constexpr,  # elements that do not turn
):
    """Add the products of all elements to the sums."""
    first, second, tail = sums
    first += row.first * other.first
    second += row.second * other.second
    if TAIL > 0:
        tail += row.tail * other.tail
    return Row(first, second, tail)


@triton.jit
def store_sums(
    ptr,  # (shares, d), or PER_HEAD (chunks, h, d)
    sums,  # of the weight's gradient, a `Row`, over this program's tiles
    share,  # `Share`
    head: tl.constexpr,  # `Head`
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + half
):
    """Add up a program's tile, and write its share of the weight's gradient."""
    D: tl.constexpr = 2 * head.half + head.tail
    if PER_HEAD:
        first_row = share.number * share.heads
        pointers = ptr + ((first_row + share.row.to(tl.int64)) * D)[None, :, :]
        rows = Rows(pointers, 1, (share.row < share.rows)[None, :, :])
        sums = Row(over_positions(sums[0]), over_positions(sums[1]), over_positions(sums[2]))
    else:
        pointers = ptr + share.number * D + tl.zeros((1, 1, 1), tl.int64)
        rows = Rows(pointers, 1, tl.full((1, 1, 1), 1, tl.int1))
        sums = Row(over_rows(sums[0]), over_rows(sums[1]), over_rows(sums[2]))
    store_row(rows, sums, head, INTERLEAVED)


@triton.jit
def over_positions(
    x,  # (positions, rows, columns)
):
    """The sum over positions, (1, rows, columns)."""
    return tl.sum(x, 0)[None, :, :]


@triton.jit
def over_rows(
    x,  # (positions, rows, columns)
):
    """The sum over positions and rows, (1, 1, columns)."""
    return tl.sum(tl.sum(x, 0), 0)[None, None, :]
