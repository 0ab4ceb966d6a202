"""Wrong numbers and choices for the exercises that ask for them, and what they must be told.

`test_answers_in_notebooks.py` puts each in place of the answer, in its notebook.
"""

# notebook, exercise -> the answer given, words of the verdict
WRONG_NUMBERS = {
    ("00", 2): [
        (255, "the last index of one block"),
        (256, "one block, for which one program is enough"),
        (258, "one too many"),
        (512, "two blocks side by side; these two overlap"),
        (1, "one program for each element"),
    ],
    ("02", 2): [
        (12, "equation (3) as it is"),
        (6, "half of everything"),
        (5, "the last cat is left out"),
        (7.5, "neg works on half of what rotates"),
        (8, "the first cat joins only what rotates"),
        (2, "a single fused kernel"),
    ],
    ("03", 1): [
        ([128, 1024, 160], "the bytes that the lanes use"),
        ([512, 512, 160], "two lanes share a sector"),
        ([512, 1024, 128], "a late begin touches one sector more"),
        ([16, 32, 5], "sectors, not bytes"),
        ([1024, 1024, 160], "a sector for each lane"),
        ([512, 1024, 256], "whole cache lines"),
    ],
    ("04", 1): [
        (["right", "right", "right", "wrong", "refused"], "three times as many rows as the grid"),
        (["right", "wrong", "right", "refused", "refused"], "never told the strides"),
        (["right", "wrong", "right", "wrong", "maybe"], "'maybe' is none of right, wrong, refused"),
    ],
    ("06", 2): [
        ([2, 2, 1, 4, 3], "passes test 2"),
        ([4, 2, 1, 4, 3], "fails test 4, but another one fails before that"),
    ],
    ("07", 1): [
        (["num_warps", "row_stride", "num_warps", "t"], "a thread holds 8 elements"),
        (["row_stride", "row_stride", "num_warps", "t"], "16 divides this row_stride"),
        (["t", "row_stride", "num_warps", "t"], "`memory` begins at a multiple of 16 bytes"),
    ],
    ("08", 2): [
        (["bytes", "latency", "starts"], "twice the dtype would take twice the time"),
        (["instructions", "starts", "starts"], "half the programs would take less time"),
        (["instructions", "latency", "latency"], "half the programs would take longer"),
    ],
    ("08", 3): [
        ([34.7, 5.0, 1030], "and its table read?"),
        ([19.6, 5.0, 1030], "not both"),
        ([49.8, 0.5, 1030], "T0 is missing"),
        ([49.8, 14, 1030], "what the host needs"),
        ([49.8, 5.0, 65], "the bytes alone, but here the instructions take longer"),
        ([49.8, 5.0, 2060], "two instructions for a fused multiply-add"),
    ],
    ("09", 3): [
        (["instructions", "instructions", "programs", "bytes"], "its instructions take 7 us"),
        (["bytes", "bytes", "programs", "bytes"], "its bytes take 30 us"),
        (["bytes", "instructions", "programs", "programs"], "its programs take 3 us"),
    ],
    ("12", 2): [
        (["once", "model", "upcast"], "no PyTorch operator fuses a multiply-add"),
        (["model", "model", "upcast"], "so the products are not rounded to the dtype of x"),
        (["promoted", "upcast", "upcast"], "nothing here is fp32"),
    ],
}
