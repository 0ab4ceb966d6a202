"""The public `rotate_half`, which checks what comes."""

from torch import Tensor

from ..call.checks import check_rotate_half
from . import rope_reference


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1).

    Args:
        x: any shape (..., d2) with even d2; any dtype that has negative numbers.
        interleaved: x1 and x2 are neighbors, elements 2i and 2i + 1, instead of i and i + d2/2.

    Returns:
        A new tensor like `x`. Applied twice it gives -x.

    Raises:
        TypeError: `x` is not a tensor, or `interleaved` is not a bool.
        ValueError: the last dimension is odd.

    Source: TransformerEngine's `_rotate_half`; the quarter turn in RoFormer, equation (34).
    """
    check_rotate_half(x, interleaved)
    return rope_reference.rotate_half(x, interleaved)
