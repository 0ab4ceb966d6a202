"""Mistakes in answers to notebook 07."""

from . import Wrong, WrongRung

ANSWERS = [
    # the norm of a row
    Wrong(*(3, "the sum for the mean"), {") / D +": ") +"}, "is not divided by d"),
    Wrong(
        *(3, "no epsilon"),
        {" + 1e-6": ""},
        "in the case 'a row of zeros, and small elements'",
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
