"""Notebook 10: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.judge.definitions import rope
from rope_lab.n10 import exercises

REPAIR_IT = Exercise(
    cell="10-ex1",
    judged_by=exercises.rope_of_q_and_k_apart,
    wrong_answers=(
        WrongAnswer(
            (
                "in the case 'only q is a slice of wider rows'; 11 other cases are right\n"
                "  out of bounds: program (20, 6) reads element 1008 of k_ptr"
            ),
            {"k_strides[1] + head * k_strides[2]": "k_strides[1] + head * q_strides[2]"},
            kind="outside",
            line="",
        ),
        WrongAnswer(
            "a wrong stride: it reads the memory as if the tensor were contiguous",
            {
                "k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]": (
                    "k_ptr + (token * k_heads + head) * 2 * HALF"
                )
            },
            kind="pointer",
            line="x_ptr = k_ptr + (token * k_heads + head) * 2 * HALF",
        ),
        WrongAnswer(
            "every result is right, so a mask is missing",
            {"exists = pair < HALF": "exists = pair < BLOCK"},
            kind="mask",
            line="exists = pair < BLOCK",
        ),
    ),
)


THE_WALK = Exercise(cell="10-ex3")


THE_UNSEEN_BUG = Exercise(
    cell="10-ex2",
    judged_by=rope,
    wrong_answers=(
        WrongAnswer("the table's length is taken for the sequence's", {}, kind="index", line="row"),
        WrongAnswer(
            "the wrong position: the angle is that of 0, the first position",
            {"out.numel() // (positions * d)": "out.numel() // d"},
            kind="index",
            line="position, sequence, head = row // rows",
        ),
    ),
)
