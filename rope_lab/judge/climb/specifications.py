"""The climb of notebooks 04 to 09: what every rung computes, and its gradient."""

from ..definitions import TWO_BLOCKS_FOR_ONE, rope, rope_gradient
from ..spec import MANY, STRIDED, Case, spec

_ONE_KERNEL = {"kernel": True, "launches": 1}
_WITHOUT = (*STRIDED, "part of the head rotated")
# for contiguous tensors whose heads rotate as a whole
_OF_ROWS = _ONE_KERNEL | {
    "leave_out": _WITHOUT,
    # five tiles of 8 rows: in other cases, their number is a power of two, and & can replace %
    "extra": (Case("39 rows of a position", {"s": 2, "b": 3, "h": 13, "d": 24}),),
}
_INPLACE = {"leave_out": (*_WITHOUT, MANY)}  # a large tensor takes a second: once is enough

# `rope` by one kernel
rope_of_any_strides = spec(rope.function, **_ONE_KERNEL, contiguous=True, extra=TWO_BLOCKS_FOR_ONE)
rope_of_whole_rows = spec(rope.function, **_OF_ROWS)
rope_of_whole_rows_in_place = spec(rope.function, **_OF_ROWS | _INPLACE, overwrites=("t",))

# the transposed map; the halves of a table may differ
rope_of_whole_rows_gradient = spec(rope_gradient.function, **_OF_ROWS)
rope_of_gradient_in_place = spec(
    rope_gradient.function, **_OF_ROWS | _INPLACE, overwrites=("grad",)
)
