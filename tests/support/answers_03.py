"""Notebook 03: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n03 import exercises

HOW_MANY_BYTES = Exercise(cell="03-ex2")


SOFTMAX = Exercise(
    cell="03-ex4",
    judged_by=exercises.softmax,
    wrong_answers=(
        # the maximum of a row far below zero is the 0 of its missing columns
        WrongAnswer(
            "in the case 'large elements'",
            {
                'other=float("-inf")': "other=0.0",
                "tl.exp(x - tl.max(x, axis=0))": (
                    "tl.where(exists, tl.exp(x - tl.max(x, axis=0)), 0.0)"
                ),
            },
            kind="masked",
            line="x = tl.load(x_ptr + row * n + column, mask=exists, other=0.0)",
        ),
        WrongAnswer(
            "it raises ValueError: `other` cannot be provided without `mask`",
            {"mask=exists, other": "other"},
        ),
        WrongAnswer("axis 1 out of bounds for shape", {"max(x, axis=0)": "max(x, axis=1)"}),
        WrongAnswer(
            "dtype float32, expected float16",
            {"out = torch.empty_like(x)": "out = torch.empty_like(x, dtype=torch.float32)"},
        ),
        # a maximum is fp32 in any case, and so is what is computed with it
        WrongAnswer("RIGHT: ", {".to(tl.float32)": ""}, state="RIGHT"),
    ),
)
