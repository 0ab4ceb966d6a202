"""Notebook 07: which argument makes loads narrow, and the norm of a row."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..spec import LARGE, STRIDED, ZEROS_AND_SMALL, Case, spec


def _sum_of_squares(x, weight):
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() * weight


def _no_root(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _no_weight(x, weight):
    return rms_norm_of_rows.function(x, torch.ones_like(weight))


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
        "the sum of squares is not divided by d": _sum_of_squares,
        "the root is missing: the row is divided by its mean square": _no_root,
        "the wrong weight: no weights are applied": _no_weight,
        "the squares overflow: 256 squared is more than fp16 holds, so convert x to fp32 first": (
            _squares_in_half_precision
        ),
    },
)
def rms_norm_of_rows(x: "(s, d)", weight: "(d)"):
    """Each row over the root of its mean square, times a weight a column."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


# exercise 1: which argument makes the loads narrow
ARGUMENTS = ("t", "row_stride", "n", "num_warps")
CULPRITS = {
    "`memory` begins at a multiple of 16 bytes": ["t", None, "t", None],
    "8 elements of bf16 are 16 bytes, so `memory[8:]` begins at a multiple of 16 bytes": (
        [None, "t", None, None]
    ),
    "16 divides this row_stride": ["row_stride", None, "row_stride", "row_stride"],
    "16 divides this n": [None, "n", "n", "n"],
    "with one warp a thread holds 8 elements, which are 16 bytes": (
        ["num_warps", "num_warps", None, "num_warps"]
    ),
}
