"""Notebook 05: kernels that own their pairs."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.climb.specifications import MISTAKES_OF_A_ROW, UNMASKED
from ..judge.definitions import rope, rope_of_q_and_k
from ..judge.mistakes import Mistake, Solution
from ..judge.spec import STRIDED, spec

# rung 2, by the first half's angles
HALF_OF_RUNG_2 = Solution("05-ex1", instead={"tl.load(angle_ptr + HALF, mask=exists)": "angle1"})
Q_AND_K = Solution("05-ex5")


@spec(
    leave_out=(*STRIDED, "part of the head rotated"),
    kernel=True,
    launches=1,
    half_the_table=True,
    mistakes=HALF_OF_RUNG_2.with_mistakes(*MISTAKES_OF_A_ROW),
    unmasked=UNMASKED,
)
def rope_by_first_half(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of whole heads by the table's first half; its second half does not matter.

    So it shows whether a kernel reads only one half.
    """
    first = freqs[..., : freqs.shape[-1] // 2]
    return rope.function(t, torch.cat((first, first), dim=-1))


rope_of_q_and_k_at_once = spec(
    rope_of_q_and_k.function,
    launches=1,
    kernel=True,
    unmasked="every result is right, and programs after the last row of k store, too",
    mistakes=Q_AND_K.with_mistakes(
        Mistake(
            "no row of k comes out: from program q_rows on, set row, heads, strides and both "
            "pointers to those of k, before they are used",
            {
                "    if row >= q_rows:\n": "",
                "        row, heads, strides = row - q_rows, k_heads, k_strides\n": "",
                "        t_ptr, out_ptr = k_ptr, k_out_ptr\n": "",
            },
        ),
        Mistake(
            "no row of q or k comes out: is the condition the wrong way round?",
            {"row >= q_rows": "row < q_rows"},
        ),
        Mistake(
            "the wrong heads: the rows of k are counted by the heads of q",
            {"k_heads, k_strides\n": "q_heads, k_strides\n"},
        ),
        Mistake(
            "the rows of k are counted on from those of q: subtract q_rows",
            {"row - q_rows, k_heads": "row, k_heads"},
        ),
        Mistake(
            "the rows of k come after those of q: subtract q_rows, not k_heads",
            {"row - q_rows": "row - k_heads"},
        ),
        Mistake(
            "row - q_rows is the row of k: it begins at 0, in program q_rows",
            {"row - q_rows": "row - q_rows - 1"},
        ),
        Mistake(
            "the first row of k has no program: row >= q_rows, and then row - q_rows",
            {"row >= q_rows": "row > q_rows"},
        ),
        Mistake(
            "the rows of k are found by the strides of q: set strides, too",
            {"k_heads, k_strides\n": "k_heads, q_strides\n"},
        ),
        Mistake(
            "the rows of k are found by the heads and the strides of q: set both, too",
            {"k_heads, k_strides\n": "q_heads, q_strides\n"},
        ),
        Mistake(
            "the rows of k are read from q: set t_ptr, too",
            {"= k_ptr, k_out_ptr": "= q_ptr, k_out_ptr"},
        ),
        Mistake(
            "the rows of k are stored in the result of q: set out_ptr, too",
            {"= k_ptr, k_out_ptr": "= k_ptr, q_out_ptr"},
        ),
        Mistake(
            "both pointers are still those of q: set t_ptr and out_ptr, too",
            {"= k_ptr, k_out_ptr": "= q_ptr, q_out_ptr"},
        ),
    ),
)
