"""Mistakes in answers to notebook 07."""

from . import Wrong, WrongRung

ANSWERS = [
    # the norm of a row
    Wrong(*(3, "the sum for the mean"), {") / D +": ") +"}, "is not divided by d"),
    Wrong(
        *(3, "no epsilon"),
        {" + 1e-6": ""},
        "no epsilon: a row of zeros is divided by zero",
    ),
    Wrong(*(3, "no root"), {"tl.rsqrt(": "1 / ("}, "the root is missing"),
    Wrong(*(3, "no weight"), {"x * r * weight": "x * r"}, "no weights are applied"),
    Wrong(
        *(3, "squares in half precision"),
        {
            "other=0.0).to(tl.float32)": "other=0.0)",
            "tl.sum(x * x)": "tl.sum((x * x).to(tl.float32))",
        },
        "convert x to fp32 first",
    ),
    Wrong(
        *(3, "epsilon outside"),
        {"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "1 / (tl.sqrt(tl.sum(x * x) / D) + 1e-6)"},
        "the epsilon is outside of the root: add it to the mean square",
    ),
    Wrong(
        *(3, "epsilon after the root"),
        {"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "tl.rsqrt(tl.sum(x * x) / D) + 1e-6"},
        "the epsilon is added to one over the root",
    ),
    Wrong(
        *(3, "another epsilon"),
        {"1e-6": "1e-5"},
        "another epsilon: 1e-05, not 1e-06",
    ),
    Wrong(
        *(3, "a large epsilon"),
        {"1e-6": "1e-3"},
        "another epsilon: 0.001, not 1e-06",
    ),
    Wrong(
        *(3, "epsilon in the sum"),
        {"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "tl.rsqrt((tl.sum(x * x) + 1e-6) / D)"},
        "the epsilon is added to the sum, before it is divided by d",
    ),
    Wrong(
        *(3, "epsilon in every lane"),
        {"x * x) / D + 1e-6": "x * x + 1e-6) / D"},
        "the epsilon is added in every lane, before the sum",
    ),
    Wrong(
        *(3, "LayerNorm"),
        {"    r = ": "    x = tl.where(exists, x - tl.sum(x) / D, 0.0)\n    r = "},
        "the mean is subtracted, as LayerNorm does",
    ),
    Wrong(
        *(3, "the variance"),
        {"/ D + 1e-6": "/ D - (tl.sum(x) / D) * (tl.sum(x) / D) + 1e-6"},
        "the variance, where the mean square is asked for",
    ),
    Wrong(
        *(3, "the block for the row"),
        {"/ D + 1e-6": "/ BLOCK + 1e-6"},
        "the sum is divided by BLOCK, which counts masked lanes",
    ),
    Wrong(
        *(3, "one less"),
        {"/ D + 1e-6": "/ (D - 1) + 1e-6"},
        "the sum is divided by d - 1",
    ),
    Wrong(
        *(3, "the root itself"),
        {"tl.rsqrt(": "tl.sqrt("},
        "it multiplies by the root, and has to divide by it",
    ),
    Wrong(
        *(3, "no squares"),
        {"tl.sum(x * x)": "tl.sum(x)"},
        "no squares: the mean of x itself",
    ),
    Wrong(
        *(3, "absolute values"),
        {"tl.sum(x * x)": "tl.sum(tl.abs(x))"},
        "no squares: the mean of absolute values",
    ),
    Wrong(
        *(3, "the sum squared"),
        {"tl.sum(x * x)": "tl.sum(x) * tl.sum(x)"},
        "the square of the sum",
    ),
    Wrong(
        *(3, "the largest"),
        {"tl.sum(x * x) / D": "tl.max(x * x)"},
        "the largest square",
    ),
    Wrong(
        *(3, "weights in the sum"),
        {
            "tl.sum(x * x)": "tl.sum(x * x * weight * weight)",
            "column, mask=exists)": "column, mask=exists, other=0.0)",
        },
        "the weights are in the sum of squares",
    ),
    Wrong(
        *(3, "no x"),
        {"x * r *": "r *"},
        "x is missing in the last product",
    ),
    Wrong(
        *(3, "x twice"),
        {"x * r *": "x * x * r *"},
        "x is in the last product twice",
    ),
    Wrong(
        *(3, "weights divide"),
        {"r * weight": "r / weight"},
        "the wrong weight: it divides by the weights",
    ),
    Wrong(
        *(3, "Gemma's weights"),
        {"r * weight": "r * (1 + weight)"},
        "the wrong weight: 1 is added to the weights",
    ),
]
NUMBERS = {
    1: [
        (["num_warps", "row_stride", "num_warps", "t"], "a thread holds 8 elements"),
        (["row_stride", "row_stride", "num_warps", "t"], "16 divides this row_stride"),
    ],
}
RUNGS = [
    # 5: one warp
    WrongRung(
        *(5, "four rows"),
        {"num_warps = 8, 1": "num_warps = 4, 1"},
        "rung 5 wants instruction time at most 42 us",
    ),
    WrongRung(
        *(5, "one row"), {"num_warps = 8, 1": "num_warps = 1, 1"}, "they take 164 us to start"
    ),
    WrongRung(
        *(5, "pairs from the last to the first"),
        {"pair = tl.arange(0, BLOCK_HALF)": "pair = BLOCK_HALF - 1 - tl.arange(0, BLOCK_HALF)"},
        "16 bytes need neighbors in one lane",
    ),
    WrongRung(
        *(5, "the flag of rung 4 lost"),
        {"TRANSPOSE=transpose": "TRANSPOSE=False"},
        *("a sign and the wrong sine: the map itself", "WRONG"),
    ),
]
