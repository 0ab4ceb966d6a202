"""Notebook 04: the first RoPE kernels."""

from ..judge.definitions import rope  # noqa: F401 (the solutions ask for it here)

# exercise 1: what becomes of five calls of the first kernel
OUTCOMES = ("right", "wrong", "refused")
FIVE_TESTS = {
    "one sequence, contiguous: row r is where the kernel looks for it": ["wrong"] + 4 * [None],
    "32 is a power of two, and Triton asks for no more": ["refused"] + 4 * [None],
    "three sequences have three times as many rows as the grid": [None, "right"] + 3 * [None],
    "16 is a power of two; Triton does not count rows": [None, "refused"] + 3 * [None],
    "only dimensions of size 1 moved: row r is where it was": [*2 * [None], "wrong", None, None],
    "16 is a power of two; Triton does not ask for strides": [None, None, "refused", None, None],
    "a row begins 48 elements after the one before, and the kernel expects 16": (
        3 * [None] + ["right", None]
    ),
    "the kernel is never told the strides, so nothing can refuse them": (
        3 * [None] + ["refused", None]
    ),
    "the result is not the question: `tl.arange` takes powers of two": 4 * [None] + ["right"],
    "no program runs: `tl.arange` takes powers of two": 4 * [None] + ["wrong"],
}
