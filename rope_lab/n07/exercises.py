"""Notebook 07: which argument makes loads narrow, and rung 5."""

# which argument makes the loads narrow
ARGUMENTS = ("t", "row_stride", "n", "num_warps")
CULPRITS = {
    "`memory` begins at a multiple of 16 bytes": {1: "t", 3: "t"},
    "8 elements of bf16 are 16 bytes, so `memory[8:]` begins at a multiple of 16 bytes": {2: "t"},
    "16 divides this row_stride": {
        1: "row_stride",
        3: "row_stride",
        4: "row_stride",
    },
    "16 divides this n": {2: "n", 3: "n", 4: "n"},
    "with one warp a thread holds 8 elements, which are 16 bytes": {
        1: "num_warps",
        2: "num_warps",
        4: "num_warps",
    },
}
