"""Notebook 10: what the kernels with bugs should compute."""

from ..judge.definitions import rope, rope_of_q_and_k
from ..judge.exercise import Exercise, WrongAnswer
from ..judge.spec import STRIDED, Case, spec

# every tensor contiguous, and every head rotated as a whole
rope_of_whole_heads = spec(
    rope.function,
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
)

# of whole heads; in one case q and k have different strides
_ONLY_Q = "only q is a slice of wider rows"
rope_of_q_and_k_apart = spec(
    rope_of_q_and_k.function,
    leave_out=("part of the head rotated", "every other element"),
    kernel=True,
    launches=1,
    extra=(Case(_ONLY_Q, {"s": 7, "b": 3, "h": 5, "g": 2, "d": 24}, layout=_ONLY_Q),),
)


REPAIR_IT = Exercise(
    cell="10-ex1",
    judged_by=rope_of_q_and_k_apart,
    wrong_answers=(
        WrongAnswer(
            mistake="the bug",
            instead={"k_strides[1] + head * k_strides[2]": "k_strides[1] + head * q_strides[2]"},
            told=(
                "in the case 'only q is a slice of wider rows'; 9 other cases are right\n"
                "  looks like: out of bounds: program (20, 6) reads element 1008 of k_ptr"
            ),
        ),
        WrongAnswer(
            mistake="k without strides",
            instead={
                "k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]": (
                    "k_ptr + (token * k_heads + head) * 2 * HALF"
                )
            },
            told="a wrong stride: it reads the memory as if the tensor were contiguous",
        ),
    ),
)

THE_UNSEEN_BUG = Exercise(
    cell="10-ex2",
    judged_by=rope,
    wrong_answers=(
        WrongAnswer(
            mistake="none",
            instead={},
            told="the table's length: right for a table that ends with the sequence",
        ),
        WrongAnswer(
            mistake="all rows for one position",
            instead={"out.numel() // (positions * d)": "out.numel() // d"},
            told="the wrong position: the angle is that of 0, the first position",
        ),
    ),
)
