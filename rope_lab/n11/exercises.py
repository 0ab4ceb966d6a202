"""Notebook 11: rows normalized, rows normalized and rotated, and the gradients of that."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.definitions import A_ROW_OF_ZEROS, rms_norm_of_rows, rope, rope_gradient
from ..judge.spec import STRIDED, spec


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    tolerance=(1e-5, 1e-5),  # as for the norm alone
)
def rope_of_normalized_rows(x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"):
    """Each row over the root of its mean square, times a weight per column; then `rope`."""
    return rope.function(rms_norm_of_rows.function(x, weight), freqs)


def _backwards(grad, x, weight, freqs):
    """The gradient before the rotation, and rows of x normalized, with one over their roots."""
    r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return rope_gradient.function(grad, freqs), x * r, r


def _over_all_rows(products):
    return products.flatten(0, -2).sum(0)


@spec(
    leave_out=STRIDED,
    launches=2,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    tolerance=(1e-4, 1e-4),
)
def gradients_of_normalized_rows(
    grad: "(s, b, h, d)", x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"
):
    """Those of x and of the weight, by equations (4) and (5)."""
    dn, normal, r = _backwards(grad, x, weight, freqs)
    along = (dn * weight * normal).mean(-1, keepdim=True)
    return (dn * weight - normal * along) * r, _over_all_rows(dn * normal)
