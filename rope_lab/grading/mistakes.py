"""Likely wrong answers to the exercises that ask for numbers or choices, and what leads to them.

    lab.check_answer(answer, right, mistakes=lab.mistakes.FORGOTTEN_BLOCK)

Words -> the wrong answer; for several answers a list, with None where the words do not apply. They
are here so that a stub's cell does not have the recipe in it. Where the cell would compute the
right answer in plain sight, that is in `answers_03.py` and so on, for 08, 09 and 11 with these.
"""

from collections.abc import Sequence
from math import pi

from .exercises.exercises_01 import slow_pairs

# 00, exercise 2: the largest n for which a kernel without `* BLOCK` is right, in blocks of 256
FORGOTTEN_BLOCK = {
    "the last index of one block; indices begin at 0": 255,
    "one block, for which one program is enough; what does a second program add?": 256,
    "one too many; the elements of a block are counted from 0": 258,
    "two blocks side by side; these two overlap": 512,
    "the last index of two blocks side by side; these two overlap": 511,
    "one program for each element; each has a whole block": 1,
}

# 00, exercise 3: bytes of one million elements in bf16, read and written
_ELEMENTS, _PLACES = 1_000_000, 3907 * 256
COUNTED_BYTES = {
    "elements, not bytes": _ELEMENTS,
    "half of it: bytes that are only read, or elements that are read and written": 2 * _ELEMENTS,
    "four bytes for each element, as in fp32": 8 * _ELEMENTS,
    "masked places are counted, but a masked load reads nothing": 4 * _PLACES,
    "places in blocks, not bytes": _PLACES,
    "bits, not bytes": 8 * 4 * _ELEMENTS,
}

# 01, exercise 2: of 24 scores with keys that turn the wrong way, how many are right
WRONG_WAY = {
    "no key at all; one of them is not turned, so it has no wrong way": 0,
    "one query alone; which position the query has does not matter": 1,
    "the first row, or the diagonal: what matters is that the key is not turned": 4,
    "the first row as well; a query that is not turned does not help a key that is": 9,
    "the wrong scores, not the right ones": 18,
    "all of them; -n and n are the same angle for one n only": 24,
}

# 01, exercise 5's question: pairs that do not finish a turn
_ASKED = {"d": 128, "base": 500_000.0, "positions": 8192}
SLOW_PAIRS = {
    "the base 10 000": slow_pairs(**_ASKED | {"base": 10_000.0}),
    "the fast pairs, not the slow ones": 64 - slow_pairs(**_ASKED),
    "2 pi is missing: a turn is 2 pi, not 1": slow_pairs(**_ASKED | {"positions": 8192 * 2 * pi}),
    "half a turn, not a whole one": slow_pairs(**_ASKED | {"positions": 2 * 8192}),
    "elements, not pairs": 2 * slow_pairs(**_ASKED),
    "4096 positions": slow_pairs(**_ASKED | {"positions": 4096}),
}

# 02, exercise 5: bytes of eager PyTorch where half of the head rotates
_N, _F = 64 * 2 * 4 * 64 * 4, 64 * 32 * 4
PARTIAL_ROTATION = {
    "equation (4) as it is, for all of d": 12 * _N + 6 * _F,
    "half of everything, but the last cat sees all of t": 6 * _N + 6 * _F,
    "the last cat is left out": 5 * _N + 6 * _F,
    "F halved, but F is the bytes of the table as it is": 7 * _N + 3 * _F,
    "the table's bytes are left out": 7 * _N,
    "a single fused kernel, equation (5)": 2 * _N + _F,
}

# 03, exercise 1: bytes that memory sends for three loads of a warp
SENT_BYTES = {
    "the bytes that the lanes use; memory sends whole sectors": [128, 64, None],
    "an aligned load; a late begin touches one sector more": [None, None, 128],
    "sectors, not bytes": [16, 32, 5],
    "a sector for each lane; some lanes share one": [1024, None, 1024],
    "whole cache lines; memory sends sectors of 32 bytes": [2048, 4096, 256],
    "the elements take 4 bytes, but in bf16 they take 2": [None, 2048, None],
    "two lanes share a sector, but here the elements are too far apart": [None, 512, None],
}

# 04, exercise 1: what becomes of five calls of the first kernel
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

# 06, exercise 3: the first of four tests that fails
FOUR_TESTS = {
    1: "ones, matching halves",
    2: "a random gradient, matching halves",
    3: "a random gradient, mismatched halves",
    4: "a transposed gradient, mismatched halves",
}


def first_to_fail(failed: Sequence[Sequence[int]]) -> dict[str, object]:
    """What `check_choices` needs, from the tests that each wrong backward fails."""
    mistakes = {}
    for test in FOUR_TESTS:
        passes = [test if test not in one else None for one in failed]
        mistakes[f"this backward passes test {test}: what does the test not tell apart?"] = passes
        later = [test if test in one[1:] else None for one in failed]
        mistakes[f"it fails test {test}, but another one fails before that"] = later
    return {
        "right": [one[0] for one in failed],
        "choices": FOUR_TESTS,
        "mistakes": mistakes,
        "hint": "what each test cannot tell apart",
    }


# 07, exercise 1: which argument makes the loads narrow
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

# 07, exercise 3: programs on an SM
OCCUPANCIES = {
    "the registers are not rounded up: equation (2)": [10, None, None],
    "a quarter of the SM holds whole warps, so round down for each quarter": [9, None, None],
    "warps, not programs": [16, 48, None],
    "registers alone decide; what does shared memory allow?": [None, 12, None],
    "rounded up; a program that fits only in part is not there": [None, 6, None],
    "warps alone decide; equation (3) has a limit of programs, too": [None, None, 64],
    "registers alone decide; equation (3) has a limit of programs, too": [None, None, 84],
    "a quarter of the SM alone; it has four": [2, 3, 21],
}

# 07, exercise 4: the narrowest load or store of a kernel that is right
NARROW = {
    "a load or store of t takes every other element": 2,
    "a load of the table takes every other angle": 4,
    "half of what would do: 8 elements of bf16 are 16 bytes": 8,
}

# 07, exercise 5: which of three tiles spills
TILES = ("a", "b", "c")
SPILLING_TILES = {
    "a thread holds 128 elements, as in the tile of 16 rows; fp32 in memory adds no register": "a",
    "four warps share it, so a thread holds 128 elements, as in the tile of 16 rows": "c",
}
