"""The climb of notebooks 04 to 09: what every rung computes, and its gradient."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec
from .definitions import rope, rope_gradient

_OF_WHOLE_ROWS = (*STRIDED, "part of the head rotated")


@spec(kernel=True, loads=2, launches=1)
def rope_of_any_strides(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` by one kernel; a lane for each element loads t twice."""
    return rope.function(t, freqs)


@spec(leave_out=_OF_WHOLE_ROWS, kernel=True, launches=1)
def rope_of_whole_rows(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` by one kernel, of contiguous tensors whose heads are rotated as a whole."""
    return rope.function(t, freqs)


@spec(leave_out=_OF_WHOLE_ROWS, overwrites=("t",), kernel=True, launches=1)
def rope_of_whole_rows_in_place(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The same, written over its input."""
    return rope.function(t, freqs)


@spec(leave_out=(*_OF_WHOLE_ROWS, "one gradient for all"), kernel=True, launches=1)
def rope_of_whole_rows_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The transpose of `rope_of_whole_rows`; the halves of a table may differ."""
    return rope_gradient.function(grad, freqs)
