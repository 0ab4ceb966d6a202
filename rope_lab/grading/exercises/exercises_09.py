"""Notebook 09: rotated and scaled in one kernel."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec
from .definitions import rope


@spec(leave_out=STRIDED, launches=1, kernel=True)
def rope_scaled(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d)"):
    """`rope`, and every element divided by the square root of d."""
    return (_in_fp64(t, freqs) * t.shape[-1] ** -0.5).to(t.dtype)


def _in_fp64(t, freqs):
    return rope.function(t.double(), freqs.double())
