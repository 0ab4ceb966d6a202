"""Notebook 12: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n12 import exercises

A_WRAPPER_FOR_THE_MODEL = Exercise(
    cell="12-ex1",
    judged_by=(exercises.rope_of_heads_first, exercises.rope_gradient_of_heads_first),
    wrong_answers=(
        WrongAnswer(
            (
                "the wrong layout: the kernel reads memory as (s, b, h, d), and it is "
                "still stored as (b, h, s, d)"
            ),
            {"x.permute(2, 0, 1, 3).contiguous()": "x.permute(2, 0, 1, 3)"},
            kind="wrong element",
            line="angle1 = tl.load(",
        ),
        WrongAnswer(
            "the gradient is ignored: each of its elements counts as 1",
            {"grad.permute": "torch.ones_like(grad).permute"},
            kind="wrong element",
            line="x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)",
        ),
    ),
)


WHICH_ROUNDING = Exercise(cell="12-ex2")
