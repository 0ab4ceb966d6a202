"""Parts of the backward kernel with a norm: what a tile reads, its gradients, the weight's sums."""

import triton
import triton.language as tl

from .norm_arithmetic import dot, times, turn_row, zero_outside
from .norm_rows import load_numbers, load_rows, store_row


@triton.jit
def load_tile(
    is_k,  # whether this program has rows of k
    grads,  # (pointer, strides) of q's gradient and of k's, as `rows_of` takes them
    kept,  # the same of what the forward kept
    rstds,  # the same of 1 / rms of each row
    place,  # as `rows_of` takes it
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    PER_BATCH: tl.constexpr,  # rows are the heads of entry b; False: the heads of all entries
    GRAD_ALIGNED: tl.constexpr,  # bytes that divide every address of a row of gradients
    ALIGNED: tl.constexpr,  # the same of what was kept
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    GRAD_INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1 of a gradient
    KEPT_INTERLEAVED: tl.constexpr,  # and of what was kept
):
    """The gradient, what the forward kept, and 1 / rms of this program's rows."""
    q_grad, k_grad = grads
    grad = load_rows(
        *(is_k, q_grad, k_grad, place, exists, PER_BATCH, GRAD_ALIGNED),
        *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, GRAD_INTERLEAVED),
    )
    q_kept, k_kept = kept
    rows = load_rows(
        *(is_k, q_kept, k_kept, place, exists, PER_BATCH, ALIGNED),
        *(HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, KEPT_INTERLEAVED),
    )
    q_rstd, k_rstd = rstds
    return grad, rows, load_numbers(is_k, q_rstd, k_rstd, place, exists, PER_BATCH)


@triton.jit
def normal_and_gradient(
    kept,  # the input: three pieces, 0 where there is no element
    grad,  # of the output: the same
    rstd,  # 1 / rms of each row, (BLOCK_S, BLOCK_R, 1)
    angles,  # as `angles_of_tile` returns them
    exists,  # whether there is such a row, (BLOCK_S, BLOCK_R, 1)
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    NORM_AFTER: tl.constexpr,  # the rotated row was normalized
    PACKED: tl.constexpr,  # tokens past the last sequence pass through
    INVERSE: tl.constexpr,  # sines were negated
):
    """The normalized row, and the gradient of its product with the weights."""
    DTYPE: tl.constexpr = rstd.dtype
    if not NORM_AFTER:
        grad = turn_row(grad, angles, PACKED, True, INVERSE, False, DTYPE)
    normal = kept
    if NORM_AFTER:
        normal = turn_row(kept, angles, PACKED, False, INVERSE, False, DTYPE)
    normal = times(normal, (rstd, rstd, rstd))
    return zero_outside(normal, exists, HALF, TAIL), zero_outside(grad, exists, HALF, TAIL)


@triton.jit
def input_gradient(
    grad,  # of the normalized row times the weights: three pieces
    normal,  # the normalized row: three pieces
    rstd,  # 1 / rms of each row, (BLOCK_S, BLOCK_R, 1)
    weights,  # offset plus weight: three pieces
    angles,  # as `angles_of_tile` returns them
    TAIL: tl.constexpr,  # elements that do not turn
    NORM_DIM: tl.constexpr,  # number of squares in a sum
    NORM_AFTER: tl.constexpr,  # the rotated row was normalized
    GIVEN: tl.constexpr,  # the sum of squares came from elsewhere
    PACKED: tl.constexpr,  # tokens past the last sequence pass through
    INVERSE: tl.constexpr,  # sines were negated
):
    """Gradients of the input, and of a sum of squares that came from elsewhere."""
    grad = times(grad, weights)
    along = dot(grad, normal, TAIL)
    if not GIVEN:  # a row that grows is scaled down: no gradient along the row is left
        mean = along * (1 / NORM_DIM)
        first, second = grad[0] - normal[0] * mean, grad[1] - normal[1] * mean
        grad = first, second, grad[2] - normal[2] * mean
    grad = times(grad, (rstd, rstd, rstd))
    if NORM_AFTER:
        grad = turn_row(grad, angles, PACKED, True, INVERSE, False, rstd.dtype)
    return grad, along * rstd * rstd * (-0.5 / NORM_DIM)


@triton.jit
def zeros_like_rows(
    BLOCK_S: tl.constexpr,  # positions of a tile
    BLOCK_R: tl.constexpr,  # rows of a tile
    BLOCK_HALF: tl.constexpr,  # columns of pairs
    BLOCK_TAIL: tl.constexpr,  # columns of the tail, or 0
    COMPUTED: tl.constexpr,  # fp32 or fp64
):
    """A tile of zeros in three pieces."""
    first = tl.zeros((BLOCK_S, BLOCK_R, BLOCK_HALF), COMPUTED)
    second = tl.zeros((BLOCK_S, BLOCK_R, BLOCK_HALF), COMPUTED)
    tail = tl.zeros((BLOCK_S, BLOCK_R, BLOCK_TAIL if BLOCK_TAIL > 0 else 1), COMPUTED)
    return first, second, tail


@triton.jit
def plus_products(
    sums,  # three pieces
    row,  # three pieces
    other,  # three pieces
    TAIL: tl.constexpr,  # elements that do not turn
):
    """Add the products of all elements to the sums."""
    first, second, tail = sums
    first += row[0] * other[0]
    second += row[1] * other[1]
    if TAIL > 0:
        tail += row[2] * other[2]
    return first, second, tail


@triton.jit
def store_sums(
    ptr,  # (shares, d), or PER_HEAD (chunks, h, d)
    sums,  # of the weight's gradient, three pieces, over this program's tiles
    row,  # (BLOCK_R, 1), int32: rows of this program
    row_exists,  # (BLOCK_R, 1)
    share,  # int64, which share this program's is
    first_row,  # int64, where its chunk starts, with PER_HEAD
    PER_HEAD: tl.constexpr,  # each head has weights of its own
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements that do not turn
    START: tl.constexpr,  # the first element that turns
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    BLOCK_TAIL: tl.constexpr,  # TAIL rounded up to a power of two, or 0
    INTERLEAVED: tl.constexpr,  # a pair is elements 2i and 2i + 1, not i and i + HALF
):
    """Add up a program's tile, and write its share of the weight's gradient."""
    D: tl.constexpr = 2 * HALF + TAIL
    if PER_HEAD:
        rows = ptr + ((first_row + row.to(tl.int64)) * D)[None, :, :]
        exists = row_exists[None, :, :]
        sums = over_positions(sums[0]), over_positions(sums[1]), over_positions(sums[2])
    else:
        rows = ptr + share * D + tl.zeros((1, 1, 1), tl.int64)
        exists = tl.full((1, 1, 1), 1, tl.int1)
        sums = over_rows(sums[0]), over_rows(sums[1]), over_rows(sums[2])
    stride = 1
    store_row(rows, stride, exists, sums, HALF, TAIL, START, BLOCK_HALF, BLOCK_TAIL, INTERLEAVED)


@triton.jit
def over_positions(
    x,  # (BLOCK_S, BLOCK_R, columns)
):
    """The sum over positions, (1, BLOCK_R, columns)."""
    return tl.sum(x, 0)[None, :, :]


@triton.jit
def over_rows(
    x,  # (BLOCK_S, BLOCK_R, columns)
):
    """The sum over positions and rows, (1, 1, columns)."""
    return tl.sum(tl.sum(x, 0), 0)[None, None, :]
