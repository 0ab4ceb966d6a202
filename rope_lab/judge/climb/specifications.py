"""The climb of notebooks 04 to 09: what every rung computes, and what it may refuse."""

from ..definitions import rope, rope_gradient
from ..spec import (
    MANY,
    ODD,
    OF_EACH,
    STRIDED,
    STRIDED_TABLE,
    TAIL_AND_STRIDE,
    TOO_SHORT,
    TOO_WIDE,
    Case,
    spec,
)

_ONE_KERNEL = {"kernel": True, "launches": 1}
_PART = "part of the head rotated"
# five tiles of 8 rows: in other cases, their number is a power of two, and & can replace %
_MANY_ROWS = Case("39 rows of a position", {"s": 2, "b": 3, "h": 13, "d": 24})
_TABLE_OF_COLUMNS = Case(STRIDED_TABLE, {"s": 5, "b": 2, "h": 3, "d": 24}, layout=STRIDED_TABLE)
_WITHOUT_A_RESULT = (
    Case(TOO_SHORT, {"s": 5, "s2": 3, "b": 2, "h": 3, "d": 8}, has_no_result=True),
    Case(TOO_WIDE, {"s": 5, "b": 2, "h": 3, "d": 8, "d2": 12}, has_no_result=True),
    Case(ODD, {"s": 5, "b": 2, "h": 3, "d": 9}, has_no_result=True),
    Case(OF_EACH, {"s": 5, "b": 2, "h": 3, "d": 8}, layout=OF_EACH, has_no_result=True),
)
# the forward is called with every input, and the other uses with those that can differ there
_FORWARD = _ONE_KERNEL | {"extra": (_MANY_ROWS, _TABLE_OF_COLUMNS, *_WITHOUT_A_RESULT)}
_OTHER_USE = _ONE_KERNEL | {"extra": (_MANY_ROWS,)}
_NARROW = {"leave_out": (*STRIDED, _PART)}
_INPLACE = {"leave_out": (*STRIDED, _PART, MANY)}  # a large tensor takes a second: once is enough
_NOT_CONTIGUOUS = (*STRIDED, TAIL_AND_STRIDE)

# of contiguous tensors whose heads rotate as a whole; the halves of a table may differ
rope_of_whole_rows = spec(
    rope.function, **_FORWARD, may_refuse=(*_NOT_CONTIGUOUS, STRIDED_TABLE, _PART)
)
rope_of_whole_rows_in_place = spec(rope.function, **_OTHER_USE, **_INPLACE, overwrites=("t",))
gradient_of_whole_rows = spec(rope_gradient.function, **_OTHER_USE, **_NARROW)
gradient_of_whole_rows_in_place = spec(
    rope_gradient.function, **_OTHER_USE, **_INPLACE, overwrites=("grad",)
)

# of every input; the result is contiguous, and only a contiguous tensor need be overwritten
_OVER_A_CONTIGUOUS_ONE = {"leave_out": (MANY,), "may_refuse": _NOT_CONTIGUOUS}
rope_of_any_input = spec(rope.function, **_FORWARD, may_refuse=(STRIDED_TABLE,), contiguous=True)
rope_of_any_input_in_place = spec(
    rope.function, **_OTHER_USE, **_OVER_A_CONTIGUOUS_ONE, overwrites=("t",)
)
gradient_of_any_input = spec(rope_gradient.function, **_OTHER_USE, contiguous=True)
gradient_of_any_input_in_place = spec(
    rope_gradient.function, **_OTHER_USE, **_OVER_A_CONTIGUOUS_ONE, overwrites=("grad",)
)
