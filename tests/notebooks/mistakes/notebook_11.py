"""Mistakes in answers to notebook 11."""

from . import Wrong

ANSWERS = [
    # the fused forward
    Wrong(
        *(1, "the first half alone"),
        {"x1 * x1 + x2 * x2": "x1 * x1"},
        "half of the sum is missing: only the first half is squared",
    ),
    Wrong(
        *(1, "the first half's weights twice"),
        {"weight_ptr + HALF + pair": "weight_ptr + pair"},
        "the wrong weight: the second half takes the first half's weights",
    ),
    Wrong(
        *(1, "weights after the rotation"),
        {
            "x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r",
            "x1 * cos1 - x2 * sin1": "(x1 * cos1 - x2 * sin1) * weight1",
            "x2 * cos2 + x1 * sin2": "(x2 * cos2 + x1 * sin2) * weight2",
        },
        "the wrong order: the weights are applied after the rotation",
    ),
    Wrong(
        *(1, "rounded like the model"),
        {
            "    x1, x2 = x1 * r * weight1, x2 * r * weight2\n": (
                "    stored = x_ptr.dtype.element_ty\n"
                "    x1 = ((x1 * r).to(stored) * weight1).to(stored).to(tl.float32)\n"
                "    x2 = ((x2 * r).to(stored) * weight2).to(stored).to(tl.float32)\n"
            ),
        },
        "rounding: too often, like the model, which rounds before it rotates; round once, at the",
    ),
    # three lines of the backward
    Wrong(
        *(2, "a sum for the mean"),
        {"x2, 1)[:, None] / (2 * HALF)": "x2, 1)[:, None]"},
        "the wrong divisor: the sum along the row is not divided by d",
    ),
    Wrong(
        *(2, "a mean of the first half"),
        {"g1 * x1 + g2 * x2, 1)": "g1 * x1, 1)"},
        "half of the sum is missing: the mean is of both halves of a row",
    ),
    Wrong(
        *(2, "the weight in its own gradient"),
        {
            "        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n": "",
            "g2 * w2\n": "g2 * w2\n        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n",
        },
        "the weight is in its own gradient: add to the shares before g1 and g2 take it",
    ),
]
