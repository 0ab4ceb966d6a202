"""The climb of notebooks 04 to 09: what every rung computes, and its gradient."""

from collections.abc import Callable

import torch

from ..definitions import TWO_BLOCKS_FOR_ONE, rope, rope_gradient
from ..lines import pairs_by_lines, rope_by_lines
from ..spec import MANY, STRIDED, Case, spec

UNMASKED = "every result is right, so a mask is missing, or true for lanes past the end"

_ONE_KERNEL = {"kernel": True, "launches": 1}
_WITHOUT = (*STRIDED, "part of the head rotated")
_OF_ROWS = _ONE_KERNEL | {
    "leave_out": _WITHOUT,
    # five tiles of 8 rows: in other cases their number is a power of two, and & does for %
    "extra": (Case("39 rows of a position", {"s": 2, "b": 3, "h": 13, "d": 24}),),
    "unmasked": UNMASKED,
}


def mistakes_of_rotating(size: str) -> dict[str, Callable]:
    """What is told of the loads of a partner and its angle, and of the store.

    Args:
        size: what the kernel calls the number of columns that rotate, "D2" or "D".
    """
    return {
        "the angle is that of the token's number, and all sequences share theirs: ask position": (
            rope_by_lines(angle="load(freqs_ptr, i // (D * heads) * D2 + column, rotates)")
        ),
        "the partner is sought in the first row of t: begin at row_ptr, as the element does": (
            rope_by_lines(x_partner="load(t_ptr, partner * stride_d, rotates)")
        ),
        "the partner is sought as if t were contiguous: begin at row_ptr, and use stride_d": (
            rope_by_lines(x_partner="load(t_ptr, i - column + partner, rotates)")
        ),
        "the angle is that of the row's number, and all rows of a position share theirs: ask "
        "position": rope_by_lines(angle="load(freqs_ptr, i // D * D2 + column, rotates)"),
        f"rows of the table are {size} apart, and t's stride says nothing about them": (
            rope_by_lines(angle="load(freqs_ptr, position * stride_s + column, rotates)")
        ),
        f"rows of the table are {size} apart: position needs a factor": rope_by_lines(
            angle="load(freqs_ptr, position + column, rotates)"
        ),
        "the way to the partner is in columns, and these are stride_d apart: partner * stride_d": (
            rope_by_lines(
                x_partner="load(t_ptr, row + column * stride_d + partner - column, rotates)"
            )
        ),
        "column is missing in the address of the angle": rope_by_lines(
            angle="load(freqs_ptr, position, rotates)"
        ),
        f"the table has {size} columns, and the address is that of half as many": rope_by_lines(
            angle="load(freqs_ptr, position * (D2 // 2) + column % (D2 // 2), rotates)"
        ),
        "columns of the table are neighbors, and t's stride says nothing about them": (
            rope_by_lines(angle="load(freqs_ptr, position * D2 + column * stride_d, rotates)")
        ),
        "the angle is loaded from t: begin at freqs_ptr": rope_by_lines(
            angle="load(t_ptr, position * D2 + column, rotates)"
        ),
        "two products are multiplied, where equation (1) adds them": rope_by_lines(
            y="x * cos(angle) * quarter * sin(angle)"
        ),
        "the result is stored by the strides of t, and is contiguous: store at out_ptr + i": (
            rope_by_lines(place="row + column * stride_d")
        ),
        "each element has a place of its own in the result: store at out_ptr + i": (
            rope_by_lines(place="column")
        ),
        "it is stored at its partner's place: store at out_ptr + i": rope_by_lines(
            place="i - column + partner"
        ),
        "the cosine is missing: the element itself is multiplied by it": rope_by_lines(
            y="x + quarter * sin(angle)"
        ),
        "tl.sin is missing: the angle itself multiplies the partner": rope_by_lines(
            y="x * cos(angle) + quarter * angle"
        ),
    }


_BY_D = {
    "in_first_half": "column < D // 2",
    "partner": "where(in_first_half, column + D // 2, column - D // 2)",
}
_UNMASKED = {"x_partner": "load(t_ptr, row + partner * stride_d)"}
_OF_A_TAIL = {
    "the partner is the neighbor, where half of D2 is between partners": (
        rope_by_lines(partner="column ^ 1")
    ),
    "the first with the last, where half of D2 is between partners": (
        rope_by_lines(partner="D2 - 1 - column")
    ),
    "all of D2 is added and taken away, where half of D2 is between partners": (
        rope_by_lines(partner="where(in_first_half, column + D2, column - D2)")
    ),
    "every column is taken for the first half, which ends at D2 // 2": (
        rope_by_lines(in_first_half="column < D2")
    ),
    "the sign by half of D, where half of D2 decides": rope_by_lines(
        quarter="where(column < D // 2, -x_partner, x_partner)"
    ),
    "halves and partners by half of D, where half of D2 decides": rope_by_lines(**_BY_D),
    "halves by half of D, where half of D2 decides": rope_by_lines(in_first_half="column < D // 2"),
    "partners by half of D, where half of D2 decides": rope_by_lines(
        partner="where(in_first_half, column + D // 2, column - D // 2)"
    ),
    "the partner by % D: in the second half it is in the tail; D2 decides": rope_by_lines(
        partner="(column + D2 // 2) % D"
    ),
    "the column by % D2, where a row has D elements": rope_by_lines(column="i % D2"),
    "heads are counted by D2, where each has D elements in memory": rope_by_lines(
        head="i // D2 % heads",
        sequence="i // (D2 * heads) % batch",
        position="i // (D2 * heads * batch)",
    ),
    "every index is counted by D2, where each head has D elements in memory": rope_by_lines(
        column="i % D2",
        head="i // D2 % heads",
        sequence="i // (D2 * heads) % batch",
        position="i // (D2 * heads * batch)",
    ),
    "the table has D2 columns: its rows are D2 apart, not D": rope_by_lines(
        angle="load(freqs_ptr, position * D + column, rotates)"
    ),
    "the tail loads angles of the next position: their mask has to be false there": (
        rope_by_lines(angle="load(freqs_ptr, position * D2 + column)")
    ),
    "the tail loads partners and angles: `rotates` has to be false there": (
        rope_by_lines(
            angle="load(freqs_ptr, position * D2 + column)",
            x_partner="load(t_ptr, row + partner * stride_d)",
        )
    ),
    "all of D still rotates: the table, the halves and two masks have to know D2": rope_by_lines(
        **_BY_D, **_UNMASKED, angle="load(freqs_ptr, position * D + column)"
    ),
    "all of D still rotates: halves and two masks have to know D2, as the table's rows do": (
        rope_by_lines(**_BY_D, **_UNMASKED, angle="load(freqs_ptr, position * D2 + column)")
    ),
    "the masks know D2: halves, partners and the table's rows have to, as well": (
        rope_by_lines(**_BY_D, angle="load(freqs_ptr, position * D + column, rotates)")
    ),
    "halves know D2: two masks and the table's rows have to, as well": rope_by_lines(
        **_UNMASKED, angle="load(freqs_ptr, position * D + column)"
    ),
    "column D2 is the first of the tail: <, not <=": rope_by_lines(rotates="column <= D2"),
    "the last D2 columns rotate, and the first ones should": rope_by_lines(
        rotates="column >= D - D2"
    ),
    "which columns rotate is asked of i, which counts all elements of t: ask column": (
        rope_by_lines(rotates="i < D2")
    ),
    "the tail's angle is 1: `other=0.0` gives it the angle 0, whose cosine is 1": (
        rope_by_lines(
            x_partner="load(t_ptr, row + partner * stride_d, rotates)",
            angle="where(rotates, load(freqs_ptr, position * D2 + column, rotates), 1)",
        )
    ),
    "the tail is stored as 0: its elements are masked off where they are loaded": (
        rope_by_lines(x="where(column < D2, load(t_ptr, row + column * stride_d), 0)")
    ),
}

# `rope` by one kernel
rope_of_any_strides = spec(
    rope.function,
    **_ONE_KERNEL,
    extra=TWO_BLOCKS_FOR_ONE,
    mistakes=_OF_A_TAIL | mistakes_of_rotating("D2"),
    unmasked=UNMASKED,
)

_SECOND_MEMBER = "load(t_ptr, row_ptr + pair + HALF)"
_SECOND_ANGLE = {"angle2": "load(freqs_ptr, angle_ptr + pair + HALF)"}
_NEIGHBORS = {
    "x1": "load(t_ptr, row_ptr + 2 * pair)",
    "x2": "load(t_ptr, row_ptr + 2 * pair + 1)",
}
_LINES = {  # what is told -> the lines that a kernel of rung 2 or 3 has
    "the second member is HALF further, and BLOCK_HALF is the width of the block": {
        "second": "BLOCK_HALF"
    },
    "the second member is loaded and stored BLOCK_HALF further: HALF, as its angle is": {
        "second": "BLOCK_HALF",
        **_SECOND_ANGLE,
    },
    "the second member is loaded BLOCK_HALF further and stored HALF further: HALF in both": {
        "x2": "load(t_ptr, row_ptr + pair + BLOCK_HALF)"
    },
    "the second member is stored BLOCK_HALF further and loaded HALF further: HALF in both": {
        "second": "BLOCK_HALF",
        "x2": _SECOND_MEMBER,
        **_SECOND_ANGLE,
    },
    "the second member's angle is HALF further in its row of the table, not BLOCK_HALF": {
        "angle2": "load(freqs_ptr, angle_ptr + pair + BLOCK_HALF)"
    },
    "the second member is HALF further, and not the next element": {"second": "1"},
    "the second member is loaded and stored one element further: HALF, as its angle is": {
        "second": "1",
        **_SECOND_ANGLE,
    },
    "the second member is HALF further, where it is loaded, and not the next element": {
        "x2": "load(t_ptr, offset + 1)"
    },
    "the second member is HALF further, in t, in the table and in the result": {"second": "0"},
    "the second member is HALF further, in t and in the result": {"second": "0", **_SECOND_ANGLE},
    "the second member is HALF further, and 2 * HALF further is the next row": {
        "x2": "load(t_ptr, offset + 2 * HALF)"
    },
    "the second member is HALF after the first one, and not before it": {
        "x2": "load(t_ptr, offset - HALF)"
    },
    "the first member is paired with the last one, and its partner is HALF further": {
        "x2": "load(t_ptr, row_ptr + 2 * HALF - 1 - pair)"
    },
    "the first member is in column pair, and 2 * pair is the first of two neighbors": {
        "offset": "row_ptr + 2 * pair"
    },
    "neighbors are loaded, and halves are stored: the members of a pair are HALF apart": _NEIGHBORS,
    "neighbors are loaded, and angles of neighbors, but the members of a pair are HALF apart": {
        **_NEIGHBORS,
        "angle1": "load(freqs_ptr, angle_ptr + 2 * pair)",
        "angle2": "load(freqs_ptr, angle_ptr + 2 * pair + 1)",
    },
    "the first member is loaded from the table: begin at t_ptr": {"x1": "load(freqs_ptr, offset)"},
    "the second member is loaded from the table: begin at t_ptr": {
        "x2": "load(freqs_ptr, offset + HALF)"
    },
    "the angles are loaded from t: begin at freqs_ptr": {
        "angle1": "load(t_ptr, angle_ptr + pair)",
        "angle2": "load(t_ptr, angle_ptr + pair + HALF)",
    },
    "the angle is that of the row's number: a position has `rows` rows, so row // rows": {
        "position": "row"
    },
    "the first angle is that of the row's number, and has to be that of its position": {
        "angle1": "load(freqs_ptr, row * 2 * HALF + pair)"
    },
    "the second angle is that of the row's number, and has to be that of its position": {
        "angle2": "load(freqs_ptr, row * 2 * HALF + pair + HALF)"
    },
    "the table has one row for each position, not for each row of t": {
        "angle_ptr": "position * rows * 2 * HALF"
    },
    "rows of the table are 2 * HALF apart, and BLOCK_HALF is the width of the block": {
        "angle_ptr": "position * 2 * BLOCK_HALF"
    },
    "rows of the table are 2 * HALF apart: position needs this factor": {"angle_ptr": "position"},
    "rows are 2 * HALF apart in memory, and HALF is half of that": {"row_ptr": "row * HALF"},
    "rows are 2 * HALF apart in memory, and BLOCK_HALF is the width of the block": {
        "row_ptr": "row * 2 * BLOCK_HALF"
    },
    "rows are 2 * HALF apart in memory, and `rows` says how many there are": {
        "row_ptr": "row * rows"
    },
    "rows are 2 * HALF apart in memory: the row's number needs this factor": {"row_ptr": "row"},
    "a row of t begins at row * 2 * HALF, not at position * 2 * HALF": {
        "row_ptr": "position * 2 * HALF"
    },
    "the first result is stored in both halves": {"y2": "x1 * cos(angle1) - x2 * sin(angle1)"},
    "the second result is stored in both halves": {"y1": "x2 * cos(angle2) + x1 * sin(angle2)"},
    "both results are stored in the first half: the second one's place is HALF further": {
        "place2": "offset"
    },
    "both results are stored in the second half: the first one's place is not HALF further": {
        "place1": "offset + HALF"
    },
    "tl.sin is missing: the angle itself multiplies the partner": {
        "y1": "x1 * cos(angle1) - x2 * angle1",
        "y2": "x2 * cos(angle2) + x1 * angle2",
    },
}
# Of rung 3, whose `row` counts within its position: `row % rows` of that of `lines.py`.
_LINES_OF_A_TILE = {
    "row counts within its position: position * rows comes before it": {
        "row_ptr": "row % rows * 2 * HALF"
    },
    "row counts within its position, and rows are 2 * HALF apart in memory": {
        "row_ptr": "row % rows"
    },
    "position + row: `rows` rows come before the next position, so position * rows + row": {
        "row_ptr": "(position + row % rows) * 2 * HALF"
    },
    "position + row * rows: the factor belongs to the position, so position * rows + row": {
        "row_ptr": "(position + row % rows * rows) * 2 * HALF"
    },
    "2 * HALF multiplies row alone: parentheses around position * rows + row": {
        "row_ptr": "position * rows + row % rows * 2 * HALF"
    },
    "2 * HALF multiplies position alone: parentheses around position * rows + row": {
        "row_ptr": "position * rows * 2 * HALF + row % rows"
    },
    "a position has `rows` rows in memory, however many lanes its programs have": {
        "row_ptr": "(position * (-(-rows // BLOCK_R) * BLOCK_R) + row % rows) * 2 * HALF"
    },
    "the tile's mask is true for lanes past HALF, which store in the next row: is `pair < HALF` "
    "in it, joined by &?": {"has_whole_blocks": True},
}
# Of the lines above, a reader of rung 3 writes the offset alone.
_LINES_OF_THE_OFFSET = {
    words: lines for words, lines in _LINES.items() if lines.keys() <= {"row_ptr", "offset"}
}
# Of two stores to one element the later one stays, and a tile stores its first halves first.
_OF_PAIRS = {words: pairs_by_lines(**lines) for words, lines in _LINES.items()} | {
    f"{words}{said}": pairs_by_lines(8, **lines)
    for said, known in ((" (in a tile)", _LINES_OF_THE_OFFSET), ("", _LINES_OF_A_TILE))
    for words, lines in known.items()
}


def mistakes_of_pairs(**lines: str) -> dict[str, Callable]:
    """Those of a kernel of rung 2 that has these lines, too: all that leave them alone."""
    return {
        words: pairs_by_lines(**lines | mistaken)
        for words, mistaken in _LINES.items()
        if not lines.keys() & mistaken.keys()
    }


# of contiguous tensors whose heads are rotated as a whole
_OF_WHOLE_ROWS = _OF_ROWS | {
    "mistakes": _OF_PAIRS,
    "unmasked": f"{UNMASKED}. Pairs end at HALF, and a tile's rows at `rows`",
}
rope_of_whole_rows = spec(rope.function, **_OF_WHOLE_ROWS)
_IN_PLACE = {"leave_out": (*_WITHOUT, MANY)}  # a large tensor takes a second: once is enough
rope_of_whole_rows_in_place = spec(rope.function, **_OF_ROWS | _IN_PLACE, overwrites=("t",))


def _backward(change):
    """A mistake: the kernel's two lines with `change(cos1, sin1, cos2, sin2)` for these four."""

    def mistaken(grad, freqs):
        angles = freqs[: grad.shape[0]]
        (x1, x2), (angle1, angle2) = grad.chunk(2, -1), angles.chunk(2, -1)
        cos1, sin1, cos2, sin2 = change(angle1.cos(), angle1.sin(), angle2.cos(), angle2.sin())
        return torch.cat((x1 * cos1 - x2 * sin1, x2 * cos2 + x1 * sin2), -1)

    return mistaken


def _second_sine_of_the_forward(cos1, sin1, cos2, sin2):
    return cos1, -sin2, cos2, sin2


def _first_sine_of_the_forward(cos1, sin1, cos2, sin2):
    return cos1, sin1, cos2, -sin1


def _negated_cosines(cos1, sin1, cos2, sin2):
    return -cos1, sin1, -cos2, sin2


def _all_of_the_other(cos1, sin1, cos2, sin2):
    return cos2, sin2, cos1, sin1


def _members_exchanged(grad, freqs):
    return rope.function(grad.roll(grad.shape[-1] // 2, -1), freqs)


def _cosines_for_sines(cos1, sin1, cos2, sin2):
    return cos2, sin1, cos1, sin2


_OF_THE_GRADIENT = {
    "sin2 is still the forward's: is it made of sin1, which is -sin2 by then?": (
        _backward(_second_sine_of_the_forward)
    ),
    "sin1 is still the forward's: is it made of sin2, which is -sin1 by then?": (
        _backward(_first_sine_of_the_forward)
    ),
    "the cosines are exchanged, where the sines have to be, with a sign": (
        _backward(_cosines_for_sines)
    ),
    "each half has the cosine and the sine of the other: exchange the sines, with a sign": (
        _backward(_all_of_the_other)
    ),
    "x1 and x2 are exchanged, where the sines have to be, with a sign": _members_exchanged,
    "the cosines are negated, where the sines have to be, and exchanged": (
        _backward(_negated_cosines)
    ),
}

# its transpose; the halves of a table may differ
_GRADIENT = _OF_ROWS | {"mistakes": _OF_THE_GRADIENT}
rope_of_whole_rows_gradient = spec(rope_gradient.function, **_GRADIENT)
rope_of_gradient_in_place = spec(
    rope_gradient.function, **_GRADIENT | _IN_PLACE, overwrites=("grad",)
)
