"""Notebook 09: rotated together with what stands beside it in a model."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec
from .definitions import A_ROW_OF_ZEROS, rope


@spec(leave_out=STRIDED, launches=1, kernel=True)
def rope_scaled(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d)"):
    """`rope`, and every element divided by the square root of d."""
    return (_in_fp64(t, freqs) * t.shape[-1] ** -0.5).to(t.dtype)


def _normalized_and_rotated(x, weight, freqs):
    x = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
    return _in_fp64(x, freqs)


def _less_its_mean(t, weight, freqs):
    return _normalized_and_rotated(t - t.mean(-1, keepdim=True), weight, freqs)


def _weights_plus_one(t, weight, freqs):
    return _normalized_and_rotated(t, 1 + weight, freqs)


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    mistakes={
        "the mean is subtracted first, as in LayerNorm": _less_its_mean,
        "1 is added to the weights, as in Gemma": _weights_plus_one,
    },
)
def rope_of_normalized(t: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"):
    """Each row over the root of its mean square, times a weight a column; then `rope`."""
    return _normalized_and_rotated(t.double(), weight, freqs).to(t.dtype)


def _in_fp64(t, freqs):
    return rope.function(t.double(), freqs.double())
