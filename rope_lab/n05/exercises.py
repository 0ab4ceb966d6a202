"""Notebook 05: kernels that own their pairs."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import rope
from ..judge.spec import STRIDED, spec


@spec(
    leave_out=(*STRIDED, "part of the head rotated"),
    kernel=True,
    launches=1,
    half_the_table=True,
)
def rope_by_first_half(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of whole heads by the table's first half; its second half does not matter.

    So it shows whether a kernel reads only one half.
    """
    first = freqs[..., : freqs.shape[-1] // 2]
    return rope.function(t, torch.cat((first, first), dim=-1))
