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
    norm: tl.constexpr,  # `NormBackward`
):
    """Gradients of the row that was normalized, and of a sum of squares from elsewhere."""
    grad = times(grad, weights)
    grad_dot_x_hat = dot(grad, x_hat, head.tail)
    if not norm.given:  # a row that grows is scaled down: no gradient along the row is left
        mean = grad_dot_x_hat * (1 / norm.dim)
        first, second = grad.first - x_hat.first * mean, grad.second - x_hat.second * mean
        grad = Pieces(first, second, grad.tail - x_hat.tail * mean)
    grad = times_number(grad, rstd)
    return grad, grad_dot_x_hat * rstd * rstd * (-0.5 / norm.dim)


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
    ptr,  # (shares, d), or PER_HEAD (chunks, h, d)
    sums,  # of the weight's gradient, over this program's tiles
    share,
    head: tl.constexpr,
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + half
):
    """Add up a program's tile, and write its share of the weight's gradient."""
    D: tl.constexpr = 2 * head.half + head.tail
    if PER_HEAD:
        first_row = share.number * share.heads
        pointers = ptr + ((first_row + share.row.to(tl.int64)) * D)[None, :, :]
        rows = RowPointers(pointers, 1, share.row_exists[None, :, :])
        sums = Pieces(over_positions(sums[0]), over_positions(sums[1]), over_positions(sums[2]))
    else:
        pointers = ptr + share.number * D + tl.zeros((1, 1, 1), tl.int64)
        rows = RowPointers(pointers, 1, tl.full((1, 1, 1), 1, tl.int1))
        sums = Pieces(over_rows(sums[0]), over_rows(sums[1]), over_rows(sums[2]))
    store_row(rows, sums, head, INTERLEAVED)


@triton.jit
def over_positions(x):
    """The sum over positions: (positions, rows, columns) to (1, rows, columns)."""
    return tl.sum(x, 0)[None, :, :]


@triton.jit
def over_rows(x):
    """The sum over positions and rows: (positions, rows, columns) to (1, 1, columns)."""
    return tl.sum(tl.sum(x, 0), 0)[None, None, :]
