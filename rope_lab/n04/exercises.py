"""Notebook 04: what the first RoPE kernel does with five inputs."""

# the outcomes of five calls of the first kernel
OUTCOMES = ("right", "wrong", "refused")
FIVE_TESTS = {
    "one sequence, contiguous: row r is where the kernel looks for it": {1: "wrong"},
    "32 is a power of two, and Triton requires no more": {1: "refused"},
    "three sequences have three times as many rows as the grid": {2: "right"},
    "16 is a power of two; Triton does not count rows": {2: "refused"},
    "only dimensions of size 1 moved: row r is where it was": {3: "wrong"},
    "16 is a power of two; Triton does not check strides": {3: "refused"},
    "a row begins 48 elements after the one before, and the kernel expects 16": {4: "right"},
    "the kernel doesn't get the strides, so nothing can refuse them": {4: "refused"},
    "the result is not the question: `tl.arange` takes powers of two": {5: "right"},
    "no program runs: `tl.arange` takes powers of two": {5: "wrong"},
}
