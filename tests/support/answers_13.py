"""Notebook 13: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n13 import exercises

SWIGLU = Exercise(
    cell="13-ex1",
    judged_by=exercises.swiglu_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            "shape (3, 11008), bfloat16; first at index (0, 0): got",
            {"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
            kind="factor",
            line="tl.store(out_ptr + i, gate * tl.sigmoid(up) * gate, mask=",
        ),
        WrongAnswer(
            "against the exercise: PyTorch runs to or float, silu; let the kernel do it",
            {
                "gate * tl.sigmoid(gate)": "gate",
                "    swiglu_kernel[": (
                    "    gate = torch.nn.functional.silu(gate.float())\n    swiglu_kernel["
                ),
            },
        ),
        WrongAnswer(
            "an input is overwritten: gate", {"out, n = torch.empty_like(gate)": "out, n = gate"}
        ),
    ),
)


SWIGLU_BACKWARD = Exercise(
    cell="13-ex2",
    judged_by=exercises.swiglu_backward_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            "result 0: 32",
            {"return d_gate, d_up": "return d_up, d_gate"},
            kind="wrong place",
            line="",
        ),
        WrongAnswer(
            "result 1: 32",
            {"d_out * silu": "d_out * sigmoid"},
            kind="factor",
            line="tl.store(d_up_ptr + i, d_out * sigmoid, mask=exists)",
        ),
    ),
)


ADD_AND_NORMALIZE = Exercise(
    cell="13-ex3",
    judged_by=exercises.add_rms_norm_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            "WRONG at size 3: residual: ",
            {"    tl.store(residual_ptr + offset, total, mask=exists)\n": ""},
            kind="unwritten",
            line="tl.store(x_ptr + offset, total * r * weight, mask=exists)",
        ),
        WrongAnswer(
            "shape (3, 5120), bfloat16; first at index (0, 0): got",
            {"/ D + 1e-6": "/ BLOCK + 1e-6"},
            kind="factor",
            line="tl.store(x_ptr + offset, total * r * weight, mask=exists)",
        ),
        WrongAnswer(
            "PyTorch runs to or float", {"x, residual, weight, D": "x, residual, weight.float(), D"}
        ),
        # eps outside of the root, which only a small row shows
        WrongAnswer(
            "first at index (0, 0): got",
            {"/ D + 1e-6)": "/ D) / (1 + 1e-6)"},
            kind="factor",
            line="tl.store(x_ptr + offset, total * r * weight, mask=exists)",
        ),
    ),
)


PACKED_ROPE = Exercise(
    cell="13-ex4",
    judged_by=exercises.packed_rope_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            "result 0: 28",
            {"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
            kind="wrong element",
            line="angle = position * tl.load(inv_freq_ptr + pair, mask=pair",
        ),
        WrongAnswer(
            "first at index (1, 0, 0): got",
            {"starts <= token": "starts < token"},
            kind="wrong element",
            line="angle = position * tl.load(inv_freq_ptr + pair, mask=pair",
        ),
    ),
)


LOGSUMEXP = Exercise(
    cell="13-ex5",
    judged_by=exercises.logsumexp_of_rows,
    wrong_answers=(
        WrongAnswer(
            "in the case 'large elements'",
            {'largest, total = -float("inf")': "largest, total = -1000.0"},
        ),
        WrongAnswer(
            "RIGHT: ",
            {
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
        ),
        WrongAnswer(
            "RIGHT: ",
            {
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
        ),
    ),
)


YOURS = Exercise(
    cell="13-ex6",
    judged_by=exercises.with_prediction,
    wrong_answers=(
        WrongAnswer(
            "first at index (0, 0): got",
            {"tl.sum(x, axis=0) / 4": "tl.sum(x, axis=0)"},
            kind="factor",
            line="tl.store(out_ptr + group * D + element, tl.sum(x, axis=0))",
        ),
        WrongAnswer("only what is loaded: a store moves bytes, too", {" * (1 + 1 / 4)": ""}),
        WrongAnswer(
            "twice as many bytes as there are: an element of bf16 has two", {"1024 * 2": "1024 * 4"}
        ),
        WrongAnswer(
            "put your answer in place of None",
            {"megabytes = ": "megabytes = None  # "},
            state="NOT YET",
        ),
    ),
)
