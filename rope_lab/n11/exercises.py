"""Notebook 11: rows normalized, rows normalized and rotated, and the gradients of that."""
# ruff: noqa: F821 (the letters of shapes)

from functools import partial

import torch

from ..judge.definitions import A_ROW_OF_ZEROS, rope, rope_gradient
from ..judge.mistakes import Mistake, Solution
from ..judge.spec import LARGE, STRIDED, ZEROS_AND_SMALL, Case, spec

RMS_NORM = Solution("11-ex1")
NORM_ROPE = Solution("11-ex2")
NORM_ROPE_BACKWARD = Solution("11-ex3")


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
    mistakes=RMS_NORM.with_mistakes(
        Mistake("the sum of squares is not divided by d", {") / D +": ") +"}),
        Mistake(
            "the sum is divided by d - 1, as for a variance",
            {"/ D + 1e-6": "/ (D - 1) + 1e-6"},
        ),
        Mistake(
            "the sum is divided by BLOCK, which also counts masked elements",
            {"/ D + 1e-6": "/ BLOCK + 1e-6"},
        ),
        Mistake("no squares: the mean of x itself", {"tl.sum(x * x)": "tl.sum(x)"}),
        Mistake("no squares: the mean of absolute values", {"tl.sum(x * x)": "tl.sum(tl.abs(x))"}),
        Mistake(
            "the square of the sum instead of the sum of squares",
            {"tl.sum(x * x)": "tl.sum(x) * tl.sum(x)"},
        ),
        Mistake("the largest square instead of their mean", r="tl.rsqrt(tl.max(x * x) + 1e-6)"),
        Mistake(
            "the weights are in the sum of squares: they come after the root",
            {
                "tl.sum(x * x)": "tl.sum(x * x * weight * weight)",
                "column, mask=exists)": "column, mask=exists, other=0.0)",
            },
        ),
        Mistake(
            "the variance instead of the mean square: it subtracts a mean",
            {"/ D + 1e-6": "/ D - (tl.sum(x) / D) * (tl.sum(x) / D) + 1e-6"},
        ),
        Mistake(
            "the mean is subtracted, as LayerNorm does: RMSNorm doesn't",
            {"    r = ": "    x = tl.where(exists, x - tl.sum(x) / D, 0.0)\n    r = "},
        ),
        Mistake("no epsilon: a row of zeros is divided by zero", {" + 1e-6": ""}),
        *(
            Mistake(f"another epsilon: {other}, not 1e-06", {"1e-6": other})
            for other in ("0.001", "0.0001", "1e-05", "1e-07", "1e-08", "1e-12")
        ),
        Mistake(
            "the epsilon is added to the sum, before it is divided by d",
            r="tl.rsqrt((tl.sum(x * x) + 1e-6) / D)",
        ),
        Mistake(
            "the epsilon is added to every element, before the sum",
            r="tl.rsqrt(tl.sum(x * x + 1e-6) / D)",
        ),
        Mistake(
            "the epsilon is outside of the root: add it to the mean square",
            r="1 / (tl.sqrt(tl.sum(x * x) / D) + 1e-6)",
        ),
        Mistake(
            "the epsilon is added to one over the root: add it to the mean square",
            r="tl.rsqrt(tl.sum(x * x) / D) + 1e-6",
        ),
        Mistake(
            "the root is missing: the row is divided by its mean square", {"tl.rsqrt(": "1 / ("}
        ),
        Mistake("it multiplies by the root instead of dividing by it", {"tl.rsqrt(": "tl.sqrt("}),
        Mistake("the wrong weight: no weights are applied", {"r * weight": "r"}),
        Mistake("the wrong weight: it divides by the weights", {"r * weight": "r / weight"}),
        Mistake(
            "the wrong weight: 1 is added to the weights, as Gemma does",
            {"r * weight": "r * (1 + weight)"},
        ),
        Mistake("x is missing in the last product", {"x * r *": "r *"}),
        Mistake("x is in the last product twice", {"x * r *": "x * x * r *"}),
        Mistake(
            "the squares overflow: 256 squared is more than fp16 holds, so convert x to fp32 first",
            {"tl.sum(x * x)": "tl.sum((x.to(tl.float16) * x.to(tl.float16)).to(tl.float32))"},
        ),
    ),
)
def rms_norm_of_rows(x: "(s, d)", weight: "(d)"):
    """Each row over the root of its mean square, times a weight per column."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


# and rotated


def _mistaken_norm(x, weight, freqs, words):
    """A mistake that the norm alone may have, and then the rotation."""
    rows = rms_norm_of_rows.mistakes[words](x.flatten(0, -2), weight)
    return rope.function(rows.view(x.shape), freqs)


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    tolerance=(1e-5, 1e-5),  # as for the norm alone
    mistakes={
        **{
            words: partial(_mistaken_norm, words=words)
            for words, mistaken in rms_norm_of_rows.mistakes.items()
            if mistaken.is_there
        },
        **NORM_ROPE.with_mistakes(
            Mistake(
                "half of the sum is missing: only the first half is squared", {"x1 + x2 * x2": "x1"}
            ),
            Mistake(
                "the wrong weight: the second half takes the first half's weights",
                {"+ HALF + pair": "+ pair"},
            ),
            Mistake(
                "the wrong weight: each half takes the weights of the other",
                {"weight1, x2 * r * weight2": "weight2, x2 * r * weight1"},
            ),
            Mistake(
                "the wrong order: the weights are applied after the rotation, not before",
                {
                    "r * weight1, x2 * r * weight2": "r, x2 * r",
                    "x1 * cos1 - x2 * sin1": "(x1 * cos1 - x2 * sin1) * weight1",
                    "x2 * cos2 + x1 * sin2": "(x2 * cos2 + x1 * sin2) * weight2",
                },
            ),
        ),
    },
    roundings=NORM_ROPE.with_mistakes(
        Mistake(
            "rounding: too often, like the model, which rounds before it rotates; round once, "
            "at the end",
            {
                "x1, x2 = x1 * r * weight1, x2 * r * weight2": (
                    "x1 = ((x1 * r).to(tl.float16) * weight1).to(tl.float16).to(tl.float32)\n"
                    "    x2 = ((x2 * r).to(tl.float16) * weight2).to(tl.float16)"
                    ".to(tl.float32)"
                )
            },
        ),
    ),
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
    mistakes=NORM_ROPE_BACKWARD.with_mistakes(
        Mistake(
            "the wrong divisor: the sum along the row is not divided by d",
            mean="tl.sum(g1 * x1 + g2 * x2, 1)[:, None]",
        ),
        Mistake(
            "half of the sum is missing: the mean is of both halves of a row",
            {"x1 + g2 * x2,": "x1,"},
        ),
        Mistake(
            "the weight is in its own gradient: add to the shares before it is applied",
            {
                "        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n": "",
                "g2 * w2\n": "g2 * w2\n        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n",
            },
        ),
        Mistake(
            "the part along each row is missing: subtract it",
            {"(g1 - x1 * mean) * rstd, (g2 - x2 * mean)": "g1 * rstd, g2"},
        ),
        Mistake(
            "the part along each row is added instead of subtracted",
            {"- x1 * mean) * rstd, (g2 -": "+ x1 * mean) * rstd, (g2 +"},
        ),
        Mistake(
            "the wrong divisor: the sum along the row is divided by half of d",
            mean="tl.sum(g1 * x1 + g2 * x2, 1)[:, None] / HALF",
        ),
        Mistake(
            "dx is not divided by the root of its row",
            {
                "(g1 - x1 * mean) * rstd, (g2 - x2 * mean) * rstd": (
                    "g1 - x1 * mean, g2 - x2 * mean"
                )
            },
        ),
        Mistake(
            "only a program's last tile is in its share: add to sum1 and sum2",
            {"sum1 + g1 * x1, sum2 +": "g1 * x1,"},
        ),
    ),
)
def gradients_of_normalized_rows(
    grad: "(s, b, h, d)", x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"
):
    """Those of x and of the weight, by equations (4) and (5)."""
    dn, normal, r = _backwards(grad, x, weight, freqs)
    along = (dn * weight * normal).mean(-1, keepdim=True)
    return (dn * weight - normal * along) * r, _over_all_rows(dn * normal)
