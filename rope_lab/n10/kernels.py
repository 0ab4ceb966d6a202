"""Notebook 10: a kernel of pairs, and the same one without the mask of its first store.

Importing this loads Triton.
"""

from torch import Tensor

from ..rungs.any_tile import launch
from ..rungs.changed import changed
from ..rungs.pairs_of_a_row import pairs_kernel, rope_by_pairs


def half_split_row(t: Tensor, freqs: Tensor, out: Tensor | None = None) -> Tensor:
    return rope_by_pairs(t, freqs, out)


_FIRST_STORE = "tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1)"
unmasked_row_kernel = changed(
    pairs_kernel,
    "unmasked_row_kernel",
    (f"{_FIRST_STORE}, mask=exists)", f"{_FIRST_STORE})"),
)


def unmasked_row(t: Tensor, freqs: Tensor, num_warps: int = 4) -> Tensor:
    return launch(unmasked_row_kernel, t, freqs, num_warps=num_warps)
