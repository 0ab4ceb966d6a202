"""Notebook 13: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n13 import exercises

SWIGLU = Exercise(
    cell="13-ex1",
    judged_by=exercises.swiglu_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="the sigmoid of up",
            instead={"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
            told="shape (3, 11008), bfloat16; first at index (0, 0): got",
        ),
        WrongAnswer(
            mistake="the input for the output",
            instead={"out, n = torch.empty_like(gate)": "out, n = gate"},
            told="an input is overwritten: gate",
        ),
    ),
)


SWIGLU_BACKWARD = Exercise(
    cell="13-ex2",
    judged_by=exercises.swiglu_backward_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="the gradients exchanged",
            instead={"return d_gate, d_up": "return d_up, d_gate"},
            told="result 0: 32",
        ),
        WrongAnswer(
            mistake="the sigmoid for its product",
            instead={"d_out * silu": "d_out * sigmoid"},
            told="result 1: 32",
        ),
    ),
)


ADD_AND_NORMALIZE = Exercise(
    cell="13-ex3",
    judged_by=exercises.add_rms_norm_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="the sum not stored",
            instead={"    tl.store(residual_ptr + offset, total, mask=exists)\n": ""},
            told="WRONG at size 3: residual: ",  # how many values: what the memory held before
        ),
        WrongAnswer(
            mistake="the block for the row",
            instead={"/ D + 1e-6": "/ BLOCK + 1e-6"},
            told="shape (3, 5120), bfloat16; first at index (0, 0): got",
        ),
    ),
)


PACKED_ROPE = Exercise(
    cell="13-ex4",
    judged_by=exercises.packed_rope_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="positions of the batch",
            instead={"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
            told="result 0: 28",
        ),
        WrongAnswer(
            mistake="a sequence begins one late",
            instead={"starts <= token": "starts < token"},
            told="first at index (1, 0, 0): got",
        ),
    ),
)


LOGSUMEXP = Exercise(
    cell="13-ex5",
    judged_by=exercises.logsumexp_of_rows,
    wrong_answers=(
        WrongAnswer(
            mistake="the largest element of each block by itself",
            instead={"tl.maximum(largest, tl.max(x))": "tl.max(x)"},
            told="the exponentials overflow: subtract the largest element so far",
        ),
        WrongAnswer(
            mistake="a maximum and a sum in each lane",
            instead={
                'largest, total = -float("inf"), 0.0': (
                    'largest = tl.full((BLOCK,), -float("inf"), tl.float32)\n'
                    "    total = tl.zeros((BLOCK,), tl.float32)"
                ),
                "tl.maximum(largest, tl.max(x))": "tl.maximum(largest, x)",
                "tl.exp(largest - grown)": (
                    "tl.where(largest == grown, 1.0, tl.exp(largest - grown))"
                ),
                "tl.sum(tl.exp(x - grown))": "tl.where(column < D, tl.exp(x - grown), 0.0)",
                "    tl.store(out_ptr + row, largest + tl.log(total))": (
                    "    most = tl.max(largest)\n"
                    "    total = tl.sum(total * tl.exp(largest - most))\n"
                    "    tl.store(out_ptr + row, most + tl.log(total))"
                ),
            },
            state="RIGHT",
            told="RIGHT: ",
        ),
        WrongAnswer(
            mistake="two loops",
            instead={
                "        total = total * tl.exp(largest - grown) + tl.sum(tl.exp(x - grown))\n": "",
                "largest = grown\n": (
                    "largest = grown\n"
                    "    for first in range(0, D, BLOCK):\n"
                    "        at = row * D + first + tl.arange(0, BLOCK)\n"
                    "        exists = first + tl.arange(0, BLOCK) < D\n"
                    '        x = tl.load(x_ptr + at, mask=exists, other=-float("inf"))\n'
                    "        total += tl.sum(tl.exp(x.to(tl.float32) - largest))\n"
                ),
            },
            state="RIGHT",
            told="RIGHT: ",
        ),
    ),
)


YOURS = Exercise(
    cell="13-ex6",
    judged_by=exercises.with_prediction,
    wrong_answers=(
        WrongAnswer(
            mistake="a sum for the mean",
            instead={"tl.sum(x, axis=0) / 4": "tl.sum(x, axis=0)"},
            told="first at index (0, 0): got",
        ),
        WrongAnswer(
            mistake="only what is read is predicted",
            instead={" * (1 + 1 / 4)": ""},
            told="what is loaded alone: a store moves bytes, too",
        ),
        WrongAnswer(
            mistake="four bytes an element",
            instead={"1024 * 2": "1024 * 4"},
            told="twice as many bytes as there are: an element of bf16 has two",
        ),
        WrongAnswer(
            mistake="no prediction",
            instead={"megabytes = ": "megabytes = None  # "},
            told="put your answer in place of None",
            state="NOT YET",
        ),
    ),
)
