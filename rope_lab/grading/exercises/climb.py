"""The climb of notebooks 04 to 09: what every rung computes, and its gradient."""

import torch

from ..spec import STRIDED, Case, spec
from .definitions import rope, rope_gradient, rotated

_ONE_KERNEL = {"kernel": True, "launches": 1}
_OF_ROWS = _ONE_KERNEL | {
    "leave_out": (*STRIDED, "part of the head rotated"),
    # five tiles of 8 rows: in other cases their number is a power of two, and & does for %
    "extra": (Case("39 rows of a position", {"s": 2, "b": 3, "h": 13, "d": 24}),),
}


def _sign_by_the_head(t, freqs):
    d, d2 = t.shape[-1], freqs.shape[-1]
    column = torch.arange(d2)
    partner = t[..., (column + d2 // 2) % d2]
    quarter = torch.where(column < d // 2, -partner, partner)
    return rotated(t, freqs[: t.shape[0]], lambda x: quarter)


# `rope` by one kernel
rope_of_any_strides = spec(
    rope.function,
    **_ONE_KERNEL,
    mistakes={"the sign by half of D, where half of D2 decides": _sign_by_the_head},
)

# of contiguous tensors whose heads are rotated as a whole
rope_of_whole_rows = spec(rope.function, **_OF_ROWS)
rope_of_whole_rows_in_place = spec(rope.function, **_OF_ROWS, overwrites=("t",))

# its transpose; the halves of a table may differ
rope_of_whole_rows_gradient = spec(rope_gradient.function, **_OF_ROWS)
rope_of_gradient_in_place = spec(rope_gradient.function, **_OF_ROWS, overwrites=("grad",))
