"""The climb of notebooks 04 to 09: what every rung computes, and its gradient."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..spec import STRIDED, spec
from .definitions import rope, rope_gradient, rotated

_OF_WHOLE_ROWS = (*STRIDED, "part of the head rotated")


def _by_halves_of_the_head(t, freqs, *, sign_only):
    """Where part of a head rotates: the sign, or the partner too, by the head's half."""
    d, d2 = t.shape[-1], freqs.shape[-1]
    column = torch.arange(d2)
    first, by = column < d // 2, d2 // 2 if sign_only else d // 2
    begins = column < d2 // 2 if sign_only else first
    partner = torch.where(begins, column + by, column - by)
    quarter = torch.where(first, -t[..., partner], t[..., partner])
    return rotated(t, freqs[: t.shape[0]], lambda x: quarter)


def _sign_by_the_head(t, freqs):
    return _by_halves_of_the_head(t, freqs, sign_only=True)


def _partner_by_the_head(t, freqs):
    return _by_halves_of_the_head(t, freqs, sign_only=False)


@spec(
    kernel=True,
    loads=2,
    launches=1,
    mistakes={
        "the sign by half of D, where half of D2 decides": _sign_by_the_head,
        "sign and partner by half of D, where half of D2 decides": _partner_by_the_head,
    },
)
def rope_of_any_strides(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` by one kernel; a lane for each element loads t twice."""
    return rope.function(t, freqs)


@spec(leave_out=_OF_WHOLE_ROWS, kernel=True, launches=1)
def rope_of_whole_rows(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` by one kernel, of contiguous tensors whose heads are rotated as a whole."""
    return rope.function(t, freqs)


@spec(leave_out=_OF_WHOLE_ROWS, overwrites=("t",), kernel=True, launches=1, again=False)
def rope_of_whole_rows_in_place(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The same, written over its input."""
    return rope.function(t, freqs)


@spec(leave_out=(*_OF_WHOLE_ROWS, "one gradient for all"), kernel=True, launches=1)
def rope_of_whole_rows_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The transpose of `rope_of_whole_rows`; the halves of a table may differ."""
    return rope_gradient.function(grad, freqs)


@spec(
    leave_out=(*_OF_WHOLE_ROWS, "one gradient for all"),
    overwrites=("grad",),
    kernel=True,
    launches=1,
    again=False,
)
def rope_of_gradient_in_place(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The same, written over the gradient."""
    return rope_gradient.function(grad, freqs)
