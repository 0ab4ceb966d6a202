"""Notebook 03: a scatter, a grid of two dimensions, in place."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, Case, spec
from .definitions import rotate_half
from .exercises_02 import halves_to_neighbors

_LONG_ROWS = (Case("rows longer than a block", {"s": 2, "d": 1026, "d2": 1026}),)


@spec(asks=("a scatter",), leave_out=STRIDED, extra=_LONG_ROWS, kernel=True)
def contiguous_halves_to_neighbors(x: "(s, d2)"):
    """`halves_to_neighbors` of contiguous rows."""
    return halves_to_neighbors.function(x)


@spec(axes=2, leave_out=STRIDED, kernel=True)
def rotate_half_of_rows(x: "(s, d2)"):
    """`rotate_half` of contiguous rows."""
    return rotate_half.function(x)


@spec(overwrites=("x",), leave_out=STRIDED, kernel=True)
def rotate_half_in_place(x: "(s, b, h, d2)"):
    """`rotate_half` of a contiguous tensor, written over it."""
    return rotate_half.function(x)
