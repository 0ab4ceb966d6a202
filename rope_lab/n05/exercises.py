"""Notebook 05: kernels that own their pairs."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import rope, rope_of_q_and_k, rotate_half, rotated
from ..judge.spec import STRIDED, spec


@spec(
    leave_out=(*STRIDED, "part of the head rotated"),
    kernel=True,
    half_the_table=True,
)
def rope_by_first_half(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of whole heads by the table's first half; its second half does not matter.

    So it shows whether a kernel reads only one half.
    """
    first = freqs[..., : freqs.shape[-1] // 2]
    return rope.function(t, torch.cat((first, first), dim=-1))


def _k_by_heads_of_q(q, k, freqs):
    """The number of k's row taken apart by the heads of q."""
    (_, b, h, _), (*_, g, d) = q.shape, k.shape
    row = torch.arange(k.numel() // d)
    position, sequence, head = row // (b * h), row // h % b, row % h
    position = position.clamp(max=len(freqs) - 1)  # of a single head it may leave the table
    read = ((position * b + sequence) * g + head).clamp(max=len(row) - 1)
    rows = k.reshape(-1, 1, 1, d)[read]
    return rope.function(q, freqs), rotated(rows, freqs[position], rotate_half.function).view_as(k)


rope_of_q_and_k_at_once = spec(
    rope_of_q_and_k.function,
    launches=1,
    kernel=True,
    mistakes={"the wrong heads: the rows of k are counted by the heads of q": _k_by_heads_of_q},
)
