"""Notebook 11: rows normalized, rows normalized and rotated, and the gradients of that."""
# ruff: noqa: F821 (the letters of shapes)

from functools import partial

import torch

from ..judge.definitions import A_ROW_OF_ZEROS, rope, rope_gradient
from ..judge.exercise import Exercise, WrongAnswer
from ..judge.spec import LARGE, STRIDED, ZEROS_AND_SMALL, Case, spec

# the norm alone


def _over_root(x, weight, square, eps=1e-6):
    """What the exercise asks for, where `square` is the mean of the squares."""
    return x * (square + eps).rsqrt() * weight


def _mean(x):
    return x.mean(-1, keepdim=True)


# Mistakes in what the root is taken of:


def _sum_not_divided(x, weight):
    return _over_root(x, weight, x.square().sum(-1, keepdim=True))


def _divided_by_one_less(x, weight):
    return _over_root(x, weight, x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1))


def _divided_by_the_block(x, weight):
    return _over_root(x, weight, x.square().sum(-1, keepdim=True) / _block(x))


def _block(x):
    """The power of two that a row fits in."""
    return 1 << (x.shape[-1] - 1).bit_length()


def _no_squares(x, weight):
    return _over_root(x, weight, _mean(x))


def _absolute_values(x, weight):
    return _over_root(x, weight, _mean(x.abs()))


def _square_of_the_sum(x, weight):
    return _over_root(x, weight, x.sum(-1, keepdim=True).square() / x.shape[-1])


def _largest_square(x, weight):
    return _over_root(x, weight, x.square().amax(-1, keepdim=True))


def _weighted_squares(x, weight):
    return _over_root(x, weight, _mean((x * weight).square()))


def _variance(x, weight):
    return _over_root(x, weight, _mean(x.square()) - _mean(x).square())


def _layer_norm(x, weight):
    return _variance(x - _mean(x), weight)


# in the epsilon:


def _other_epsilon(x, weight, eps):
    return _over_root(x, weight, _mean(x.square()), eps)


def _epsilon_in_the_sum(x, weight):
    return _other_epsilon(x, weight, 1e-6 / x.shape[-1])


def _epsilon_in_every_lane(x, weight):
    return _other_epsilon(x, weight, 1e-6 * _block(x) / x.shape[-1])


def _epsilon_outside(x, weight):
    return x / (_mean(x.square()).sqrt() + 1e-6) * weight


def _epsilon_after(x, weight):
    return x * (_mean(x.square()).rsqrt() + 1e-6) * weight


# in the root, and in the last product:


def _no_root(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _times_the_root(x, weight):
    return x * (_mean(x.square()) + 1e-6).sqrt() * weight


def _no_weight(x, weight):
    return rms_norm_of_rows.function(x, torch.ones_like(weight))


def _divided_by_the_weight(x, weight):
    return rms_norm_of_rows.function(x, 1 / weight)


def _one_more_weight(x, weight):
    return rms_norm_of_rows.function(x, 1 + weight)


def _no_x(x, weight):
    return _over_root(1, weight, _mean(x.square()))


def _x_twice(x, weight):
    return _over_root(x * x, weight, _mean(x.square()))


def _squares_in_half_precision(x, weight):
    squares = (x.half() * x.half()).double()
    return x * (squares.mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    tolerance=(1e-5, 1e-5),  # the order of a sum of 4096 squares is free
    extra=(
        Case("rows of 1000", {"s": 3, "d": 1000}),
        Case("rows of 4096", {"s": 2, "d": 4096}),
        Case("large elements", {"s": 3, "d": 1000}, torch.float16, layout=LARGE),
        Case(ZEROS_AND_SMALL, {"s": 5, "d": 24}, layout=ZEROS_AND_SMALL),
    ),
    mistakes={
        "the sum of squares is not divided by d": _sum_not_divided,
        "the sum is divided by d - 1, as a variance's may be": _divided_by_one_less,
        "the sum is divided by BLOCK, which counts masked lanes, too": _divided_by_the_block,
        "no squares: the mean of x itself": _no_squares,
        "no squares: the mean of absolute values": _absolute_values,
        "the square of the sum, where the sum of squares is asked for": _square_of_the_sum,
        "the largest square, where their mean is asked for": _largest_square,
        "the weights are in the sum of squares: they come after the root": _weighted_squares,
        "the variance, where the mean square is asked for: it subtracts a mean": _variance,
        "the mean is subtracted, as LayerNorm does: RMSNorm takes x as it is": _layer_norm,
        "no epsilon: a row of zeros is divided by zero": partial(_other_epsilon, eps=0),
        **{
            f"another epsilon: {eps:g}, not 1e-06": partial(_other_epsilon, eps=eps)
            for eps in (1e-3, 1e-4, 1e-5, 1e-7, 1e-8, 1e-12)
        },
        "the epsilon is added to the sum, before it is divided by d": _epsilon_in_the_sum,
        "the epsilon is added in every lane, before the sum": _epsilon_in_every_lane,
        "the epsilon is outside of the root: add it to the mean square": _epsilon_outside,
        "the epsilon is added to one over the root: add it to the mean square": _epsilon_after,
        "the root is missing: the row is divided by its mean square": _no_root,
        "it multiplies by the root, and has to divide by it": _times_the_root,
        "the wrong weight: no weights are applied": _no_weight,
        "the wrong weight: it divides by the weights": _divided_by_the_weight,
        "the wrong weight: 1 is added to the weights, as Gemma does": _one_more_weight,
        "x is missing in the last product": _no_x,
        "x is in the last product twice": _x_twice,
        "the squares overflow: 256 squared is more than fp16 holds, so convert x to fp32 first": (
            _squares_in_half_precision
        ),
    },
)
def rms_norm_of_rows(x: "(s, d)", weight: "(d)"):
    """Each row over the root of its mean square, times a weight a column."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


RMS_NORM_OF_A_ROW = Exercise(
    cell="11-ex1",
    judged_by=rms_norm_of_rows,
    wrong_answers=(
        WrongAnswer(
            mistake="the sum for the mean",
            instead={") / D +": ") +"},
            told="is not divided by d",
        ),
        WrongAnswer(
            mistake="no epsilon",
            instead={" + 1e-6": ""},
            told="no epsilon: a row of zeros is divided by zero",
        ),
        WrongAnswer(
            mistake="no root",
            instead={"tl.rsqrt(": "1 / ("},
            told="the root is missing",
        ),
        WrongAnswer(
            mistake="no weight",
            instead={"x * r * weight": "x * r"},
            told="no weights are applied",
        ),
        WrongAnswer(
            mistake="squares in half precision",
            instead={
                "other=0.0).to(tl.float32)": "other=0.0)",
                "tl.sum(x * x)": "tl.sum((x * x).to(tl.float32))",
            },
            told="convert x to fp32 first",
        ),
        WrongAnswer(
            mistake="epsilon outside",
            instead={
                "tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "1 / (tl.sqrt(tl.sum(x * x) / D) + 1e-6)"
            },
            told="the epsilon is outside of the root: add it to the mean square",
        ),
        WrongAnswer(
            mistake="epsilon after the root",
            instead={"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "tl.rsqrt(tl.sum(x * x) / D) + 1e-6"},
            told="the epsilon is added to one over the root",
        ),
        WrongAnswer(
            mistake="another epsilon",
            instead={"1e-6": "1e-5"},
            told="another epsilon: 1e-05, not 1e-06",
        ),
        WrongAnswer(
            mistake="a large epsilon",
            instead={"1e-6": "1e-3"},
            told="another epsilon: 0.001, not 1e-06",
        ),
        WrongAnswer(
            mistake="epsilon in the sum",
            instead={"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "tl.rsqrt((tl.sum(x * x) + 1e-6) / D)"},
            told="the epsilon is added to the sum, before it is divided by d",
        ),
        WrongAnswer(
            mistake="epsilon in every lane",
            instead={"x * x) / D + 1e-6": "x * x + 1e-6) / D"},
            told="the epsilon is added in every lane, before the sum",
        ),
        WrongAnswer(
            mistake="LayerNorm",
            instead={"    r = ": "    x = tl.where(exists, x - tl.sum(x) / D, 0.0)\n    r = "},
            told="the mean is subtracted, as LayerNorm does",
        ),
        WrongAnswer(
            mistake="the variance",
            instead={"/ D + 1e-6": "/ D - (tl.sum(x) / D) * (tl.sum(x) / D) + 1e-6"},
            told="the variance, where the mean square is asked for",
        ),
        WrongAnswer(
            mistake="the block for the row",
            instead={"/ D + 1e-6": "/ BLOCK + 1e-6"},
            told="the sum is divided by BLOCK, which counts masked lanes",
        ),
        WrongAnswer(
            mistake="one less",
            instead={"/ D + 1e-6": "/ (D - 1) + 1e-6"},
            told="the sum is divided by d - 1",
        ),
        WrongAnswer(
            mistake="the root itself",
            instead={"tl.rsqrt(": "tl.sqrt("},
            told="it multiplies by the root, and has to divide by it",
        ),
        WrongAnswer(
            mistake="no squares",
            instead={"tl.sum(x * x)": "tl.sum(x)"},
            told="no squares: the mean of x itself",
        ),
        WrongAnswer(
            mistake="absolute values",
            instead={"tl.sum(x * x)": "tl.sum(tl.abs(x))"},
            told="no squares: the mean of absolute values",
        ),
        WrongAnswer(
            mistake="the sum squared",
            instead={"tl.sum(x * x)": "tl.sum(x) * tl.sum(x)"},
            told="the square of the sum",
        ),
        WrongAnswer(
            mistake="the largest",
            instead={"tl.sum(x * x) / D": "tl.max(x * x)"},
            told="the largest square",
        ),
        WrongAnswer(
            mistake="weights in the sum",
            instead={
                "tl.sum(x * x)": "tl.sum(x * x * weight * weight)",
                "column, mask=exists)": "column, mask=exists, other=0.0)",
            },
            told="the weights are in the sum of squares",
        ),
        WrongAnswer(
            mistake="no x",
            instead={"x * r *": "r *"},
            told="x is missing in the last product",
        ),
        WrongAnswer(
            mistake="x twice",
            instead={"x * r *": "x * x * r *"},
            told="x is in the last product twice",
        ),
        WrongAnswer(
            mistake="weights divide",
            instead={"r * weight": "r / weight"},
            told="the wrong weight: it divides by the weights",
        ),
        WrongAnswer(
            mistake="Gemma's weights",
            instead={"r * weight": "r * (1 + weight)"},
            told="the wrong weight: 1 is added to the weights",
        ),
    ),
)


# and rotated


def _normal(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _squares_of_the_first_half(x, weight, freqs):
    squares = x.chunk(2, -1)[0].square().sum(-1, keepdim=True)
    return rope.function(x * (squares / x.shape[-1] + 1e-6).rsqrt() * weight, freqs)


def _weights_of_the_first_half(x, weight, freqs):
    first = weight.chunk(2)[0]
    return rope.function(_normal(x) * torch.cat((first, first)), freqs)


def _weights_exchanged(x, weight, freqs):
    first, second = weight.chunk(2)
    return rope.function(_normal(x) * torch.cat((second, first)), freqs)


def _mistaken_norm(x, weight, freqs, words):
    """A mistake that the norm alone may have, and then the rotation."""
    return rope.function(rms_norm_of_rows.mistakes[words](x, weight), freqs)


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
    tolerance=(1e-5, 1e-5),  # as for the norm alone
    mistakes={
        **{words: partial(_mistaken_norm, words=words) for words in rms_norm_of_rows.mistakes},
        "half of the sum is missing: only the first half is squared": _squares_of_the_first_half,
        "the wrong weight: the second half takes the first half's weights": (
            _weights_of_the_first_half
        ),
        "the wrong weight: each half takes the weights of the other": _weights_exchanged,
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
            mistake="weights exchanged",
            instead={
                "x1 * r * weight1, x2 * r * weight2": "x1 * r * weight2, x2 * r * weight1",
            },
            told="the wrong weight: each half takes the weights of the other",
        ),
        WrongAnswer(
            mistake="no weights",
            instead={"x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r"},
            told="the wrong weight: no weights are applied",
        ),
        WrongAnswer(
            mistake="no epsilon",
            instead={"mean + 1e-6": "mean"},
            told="no epsilon: a row of zeros is divided by zero",
        ),
        WrongAnswer(
            mistake="another epsilon",
            instead={"1e-6": "1e-5"},
            told="another epsilon: 1e-05, not 1e-06",
        ),
        WrongAnswer(
            mistake="epsilon outside",
            instead={"tl.rsqrt(mean + 1e-6)[:, None]": "(1 / (tl.sqrt(mean) + 1e-6))[:, None]"},
            told="the epsilon is outside of the root: add it to the mean square",
        ),
        WrongAnswer(
            mistake="LayerNorm",
            instead={
                "    mean = ": (
                    "    middle = tl.sum(x1 + x2, 1)[:, None] / (2 * HALF)\n"
                    "    x1, x2 = x1 - middle, x2 - middle\n"
                    "    x1, x2 = tl.where(exists, x1, 0.0), tl.where(exists, x2, 0.0)\n"
                    "    mean = "
                ),
            },
            told="the mean is subtracted, as LayerNorm does",
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


def _along(grad, x, weight, freqs, times):
    """dx with the part along each row taken so many times: right is once."""
    dn, normal, r = _backwards(grad, x, weight, freqs)
    along = times * (dn * weight * normal).mean(-1, keepdim=True)
    return (dn * weight - normal * along) * r, _over_all_rows(dn * normal)


def _not_over_the_root(grad, x, weight, freqs):
    dx, dw = gradients_of_normalized_rows.function(grad, x, weight, freqs)
    return dx * (x.square().mean(-1, keepdim=True) + 1e-6).sqrt(), dw


def _last_tiles_alone(grad, x, weight, freqs):
    """Of each program, where four take tiles of eight rows by turns."""
    dx, _ = gradients_of_normalized_rows.function(grad, x, weight, freqs)
    dn, normal, _ = _backwards(grad, x, weight, freqs)
    tiles = [tile for rows in (dn * normal).flatten(1, 2) for tile in rows.split(8)]
    return dx, torch.cat(tiles[-4:]).sum(0)


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
        "the part along each row is missing: subtract it": partial(_along, times=0),
        "the part along each row is added, and has to be subtracted": partial(_along, times=-1),
        "the wrong divisor: the sum along the row is divided by half of d": partial(
            _along, times=2
        ),
        "dx is not divided by the root of its row": _not_over_the_root,
        "a program's last tile alone is in its share: add to sum1 and sum2": _last_tiles_alone,
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
        WrongAnswer(
            mistake="nothing along the row",
            instead={"(g1 - x1 * mean) * rstd, (g2 - x2 * mean)": "g1 * rstd, g2"},
            told="the part along each row is missing: subtract it",
        ),
        WrongAnswer(
            mistake="added along the row",
            instead={"(g1 - x1 * mean) * rstd, (g2 -": "(g1 + x1 * mean) * rstd, (g2 +"},
            told="the part along each row is added, and has to be subtracted",
        ),
        WrongAnswer(
            mistake="half of d",
            instead={"x2, 1)[:, None] / (2 * HALF)": "x2, 1)[:, None] / HALF"},
            told="the sum along the row is divided by half of d",
        ),
        WrongAnswer(
            mistake="no root",
            instead={
                "(g1 - x1 * mean) * rstd, (g2 - x2 * mean) * rstd": (
                    "g1 - x1 * mean, g2 - x2 * mean"
                )
            },
            told="dx is not divided by the root of its row",
        ),
        WrongAnswer(
            mistake="the last tile",
            instead={
                "sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2": "sum1, sum2 = g1 * x1, g2 * x2"
            },
            told="a program's last tile alone is in its share: add to sum1 and sum2",
        ),
    ),
)
