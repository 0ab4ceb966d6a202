"""Notebook 07: a kernel with wide loads."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec
from .definitions import rope_of_neighbors


@spec(angles="pairs", leave_out=(*STRIDED, "part of the head rotated"), kernel=True)
def rope_of_neighbors_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_neighbors`, and every tensor contiguous and every head rotated as a whole."""
    return rope_of_neighbors.function(t, freqs)


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

# exercise 3: programs on an SM
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

# exercise 4: the narrowest load or store of a kernel that is right
NARROW = {
    "a load or store of t takes every other element": 2,
    "a load of the table takes every other angle": 4,
    "half of what would do: 8 elements of bf16 are 16 bytes": 8,
}

# exercise 5: which of three tiles spills
TILES = ("a", "b", "c")
SPILLING_TILES = {
    "a thread holds 128 elements, as in the tile of 16 rows; fp32 in memory adds no register": "a",
    "four warps share it, so a thread holds 128 elements, as in the tile of 16 rows": "c",
}
