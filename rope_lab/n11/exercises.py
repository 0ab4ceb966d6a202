"""Notebook 11: rows normalized and rotated, and the gradients of that."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import A_ROW_OF_ZEROS, rope, rope_gradient
from ..judge.exercise import Exercise, WrongAnswer
from ..judge.spec import STRIDED, spec


def _normal(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _sum_of_squares(x, weight, freqs):
    return rope.function(x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() * weight, freqs)


def _squares_of_the_first_half(x, weight, freqs):
    squares = x.chunk(2, -1)[0].square().sum(-1, keepdim=True)
    return rope.function(x * (squares / x.shape[-1] + 1e-6).rsqrt() * weight, freqs)


def _weights_of_the_first_half(x, weight, freqs):
    first = weight.chunk(2)[0]
    return rope.function(_normal(x) * torch.cat((first, first)), freqs)


def _weights_last(x, weight, freqs):
    return rope.function(_normal(x), freqs) * weight


def _rounded_like_the_model(x, weight, freqs):
    """In half precision: after each product, and once more at the end."""
    row = (_normal(x).half().double() * weight).half().double()
    return rope.function(row, freqs)


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    mistakes={
        "the sum of squares is not divided by d": _sum_of_squares,
        "half of the sum is missing: only the first half is squared": _squares_of_the_first_half,
        "the wrong weight: the second half takes the first half's weights": (
            _weights_of_the_first_half
        ),
        "the wrong order: the weights are applied after the rotation, not before": _weights_last,
        "rounding: too often, like the model, which rounds before it rotates; round once, at the "
        "end": _rounded_like_the_model,
    },
)
def rope_of_normalized_rows(x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"):
    """Each row over the root of its mean square, times a weight a column; then `rope`."""
    return rope.function(_normal(x) * weight, freqs)


THE_FUSED_FORWARD = Exercise(
    cell="11-ex2",
    judged_by=rope_of_normalized_rows,
    wrong_answers=(
        WrongAnswer(
            mistake="the first half alone",
            instead={"x1 * x1 + x2 * x2": "x1 * x1"},
            told="half of the sum is missing: only the first half is squared",
        ),
        WrongAnswer(
            mistake="the first half's weights twice",
            instead={"weight_ptr + HALF + pair": "weight_ptr + pair"},
            told="the wrong weight: the second half takes the first half's weights",
        ),
        WrongAnswer(
            mistake="weights after the rotation",
            instead={
                "x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r",
                "x1 * cos1 - x2 * sin1": "(x1 * cos1 - x2 * sin1) * weight1",
                "x2 * cos2 + x1 * sin2": "(x2 * cos2 + x1 * sin2) * weight2",
            },
            told="the wrong order: the weights are applied after the rotation",
        ),
        WrongAnswer(
            mistake="rounded like the model",
            instead={
                "    x1, x2 = x1 * r * weight1, x2 * r * weight2\n": (
                    "    stored = x_ptr.dtype.element_ty\n"
                    "    x1 = ((x1 * r).to(stored) * weight1).to(stored).to(tl.float32)\n"
                    "    x2 = ((x2 * r).to(stored) * weight2).to(stored).to(tl.float32)\n"
                ),
            },
            told="rounding: too often, like the model, which rounds before it rotates; "
            "round once, at the",
        ),
    ),
)


def _backwards(grad, x, weight, freqs):
    """The gradient before the rotation, and rows of x normalized, with one over their roots."""
    r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return rope_gradient.function(grad, freqs), x * r, r


def _over_all_rows(products):
    return products.flatten(0, -2).sum(0)


def _sum_for_the_mean(grad, x, weight, freqs):
    dn, normal, r = _backwards(grad, x, weight, freqs)
    along = (dn * weight * normal).sum(-1, keepdim=True)
    return (dn * weight - normal * along) * r, _over_all_rows(dn * normal)


def _mean_of_half(grad, x, weight, freqs):
    dn, normal, r = _backwards(grad, x, weight, freqs)
    first = (dn * weight * normal)[..., : x.shape[-1] // 2]
    along = first.sum(-1, keepdim=True) / x.shape[-1]
    return (dn * weight - normal * along) * r, _over_all_rows(dn * normal)


def _with_the_weight(grad, x, weight, freqs):
    dx, dw = gradients_of_normalized_rows.function(grad, x, weight, freqs)
    return dx, dw * weight


@spec(
    leave_out=STRIDED,
    launches=2,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    tolerance=(1e-4, 1e-4),
    mistakes={
        "the wrong divisor: the sum along the row is not divided by d": _sum_for_the_mean,
        "half of the sum is missing: the mean is of both halves of a row": _mean_of_half,
        "the weight is in its own gradient: add to the shares before g1 and g2 take it": (
            _with_the_weight
        ),
    },
)
def gradients_of_normalized_rows(
    grad: "(s, b, h, d)", x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"
):
    """Those of x and of the weight, by equations (4) and (5)."""
    dn, normal, r = _backwards(grad, x, weight, freqs)
    along = (dn * weight * normal).mean(-1, keepdim=True)
    return (dn * weight - normal * along) * r, _over_all_rows(dn * normal)


THREE_LINES_OF_THE_BACKWARD = Exercise(
    cell="11-ex3",
    judged_by=gradients_of_normalized_rows,
    wrong_answers=(
        WrongAnswer(
            mistake="a sum for the mean",
            instead={"x2, 1)[:, None] / (2 * HALF)": "x2, 1)[:, None]"},
            told="the wrong divisor: the sum along the row is not divided by d",
        ),
        WrongAnswer(
            mistake="a mean of the first half",
            instead={"g1 * x1 + g2 * x2, 1)": "g1 * x1, 1)"},
            told="half of the sum is missing: the mean is of both halves of a row",
        ),
        WrongAnswer(
            mistake="the weight in its own gradient",
            instead={
                "        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n": "",
                "g2 * w2\n": "g2 * w2\n        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n",
            },
            told="the weight is in its own gradient: add to the shares before g1 and g2 take it",
        ),
    ),
)
