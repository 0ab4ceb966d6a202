"""Parts of the backward kernel with a norm: a row's gradients, and the sums of the weight's.

`grad`, `x_hat`, `weights` and `sums` are `Pieces`.
"""

import triton
import triton.language as tl

from .norm_arithmetic import dot, times, times_number
from .norm_rows import store_row
from .values import Pieces, RowPointers


@triton.jit
def input_gradient(
    grad,  # of the normalized row times the weights
    x_hat,  # the normalized row
    rstd,  # 1 / rms of each row, (positions, rows, 1)
    weights,  # offset plus weight
    head: tl.constexpr,
):
    """The gradient of the row that was normalized."""
    D: tl.constexpr = 2 * head.half + head.tail
    grad = times(grad, weights)
    # a row that grows is scaled down: no gradient along the row is left
    mean = dot(grad, x_hat, head.tail) * (1 / D)
    first, second = grad.first - x_hat.first * mean, grad.second - x_hat.second * mean
    grad = Pieces(first, second, grad.tail - x_hat.tail * mean)
    return times_number(grad, rstd)


@triton.jit
def zeros_of_rows(tile: tl.constexpr, head: tl.constexpr, COMPUTED: tl.constexpr):
    """A tile of zeros, in `Pieces`."""
    POSITIONS: tl.constexpr = tile.positions
    ROWS: tl.constexpr = tile.rows
    COLUMNS: tl.constexpr = head.columns
    TAIL_COLUMNS: tl.constexpr = head.tail_columns if head.tail_columns > 0 else 1
    first = tl.zeros((POSITIONS, ROWS, COLUMNS), COMPUTED)
    second = tl.zeros((POSITIONS, ROWS, COLUMNS), COMPUTED)
    tail = tl.zeros((POSITIONS, ROWS, TAIL_COLUMNS), COMPUTED)
    return Pieces(first, second, tail)


@triton.jit
def plus_products(sums, x, other, TAIL: tl.constexpr):
    """Add the products of all elements to the sums."""
    first, second, tail = sums
    first += x.first * other.first
    second += x.second * other.second
    if TAIL > 0:
        tail += x.tail * other.tail
    return Pieces(first, second, tail)


@triton.jit
def store_sums(
    ptr,  # (shares, d)
    sums,  # of the weight's gradient, over this program's tiles
    number,  # of this program's share
    head: tl.constexpr,
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + half
):
    """Add up a program's tile, and write its share of the weight's gradient."""
    D: tl.constexpr = 2 * head.half + head.tail
    pointers = ptr + number * D + tl.zeros((1, 1, 1), tl.int64)
    rows = RowPointers(pointers, 1, tl.full((1, 1, 1), 1, tl.int1))
    sums = Pieces(over_rows(sums[0]), over_rows(sums[1]), over_rows(sums[2]))
    store_row(rows, sums, head, INTERLEAVED)


@triton.jit
def over_rows(x):
    """The sum over positions and rows: (positions, rows, columns) to (1, 1, columns)."""
    return tl.sum(tl.sum(x, 0), 0)[None, None, :]
