"""The climb of notebooks 04 to 09: what every rung computes, its gradient, and likely mistakes."""

from ..definitions import TWO_BLOCKS_FOR_ONE, rope, rope_gradient
from ..mistakes import Mistake, Solution
from ..spec import MANY, STRIDED, Case, spec

UNMASKED = "every result is right, so a mask is missing, or true for lanes past the end"

_ONE_KERNEL = {"kernel": True, "launches": 1}
_WITHOUT = (*STRIDED, "part of the head rotated")
_OF_ROWS = _ONE_KERNEL | {
    "leave_out": _WITHOUT,
    # five tiles of 8 rows: in other cases, their number is a power of two, and & can replace %
    "extra": (Case("39 rows of a position", {"s": 2, "b": 3, "h": 13, "d": 24}),),
    "unmasked": UNMASKED,
}

RUNG_1 = Solution("04-ex2")
RUNG_2 = Solution("05-ex1")
RUNG_3 = Solution("05-ex2")
_BACKWARD = Solution("06-ex1", options={"transpose": True})


# of an element in t
PLACE = "position * stride_s + sequence * stride_b + head * stride_h + column * stride_d"


def mistakes_of_rotating(size: str) -> list[Mistake]:
    """Mistakes in the loads of a partner and its angle, and in the store.

    Args:
        size: what the kernel calls the number of columns that rotate, "D2" or "D".
    """
    angle = f"position * {size} + column"
    return [
        Mistake(
            "the angle is that of the token's number, but sequences share angles: use position",
            {angle: f"i // (D * heads) * {size} + column"},
        ),
        Mistake(
            "the partner is loaded from the first row of t: begin at row_ptr, as for the element",
            {"row_ptr + partner": "t_ptr + partner"},
        ),
        Mistake(
            "the partner is loaded as if t were contiguous: begin at row_ptr, and use stride_d",
            {"row_ptr + partner * stride_d": "t_ptr + i - column + partner"},
        ),
        Mistake(
            "the angle is that of the row's number, but rows of a position share it: use position",
            {angle: f"i // D * {size} + column"},
        ),
        Mistake(
            f"every position takes the angles of the first one: add position * {size}",
            {angle: "column"},
        ),
        Mistake(
            "the angle is that of the sequence's number: use position",
            {angle: f"sequence * {size} + column"},
        ),
        Mistake(
            f"rows of the table are {size} apart, and t's stride says nothing about them",
            {angle: "position * stride_s + column"},
        ),
        Mistake(
            f"rows of the table are {size} apart: position needs a factor",
            {angle: "position + column"},
        ),
        Mistake(
            "the partner is given in columns, and these are stride_d apart: partner * stride_d",
            {"partner * stride_d": "column * stride_d + partner - column"},
        ),
        Mistake("column is missing in the address of the angle", {angle: "position"}),
        Mistake(
            f"the table has {size} columns, and the address is that of half as many",
            {angle: f"position * ({size} // 2) + column % ({size} // 2)"},
        ),
        Mistake(
            "columns of the table are neighbors, and t's stride says nothing about them",
            {angle: f"position * {size} + column * stride_d"},
        ),
        Mistake("the angle is loaded from t: begin at freqs_ptr", {"load(freqs_ptr": "load(t_ptr"}),
        Mistake(
            "two products are multiplied, where equation (1) adds them",
            {"tl.cos(angle) +": "tl.cos(angle) *"},
        ),
        Mistake(
            "the result is stored with the strides of t, but is contiguous: store at out_ptr + i",
            {"out_ptr + i,": f"out_ptr + {PLACE},"},
        ),
        Mistake(
            "each element has its own place in the result: store at out_ptr + i",
            {"out_ptr + i,": "out_ptr + column,"},
        ),
        Mistake(
            "it is stored at its partner's place: store at out_ptr + i",
            {"out_ptr + i,": "out_ptr + i - column + partner,"},
        ),
        Mistake(
            "the cosine is missing: the element itself is multiplied by it",
            {"x * tl.cos(angle)": "x"},
        ),
        Mistake(
            "tl.sin is missing: the angle itself multiplies the partner",
            {"tl.sin(angle)": "angle"},
        ),
        Mistake(
            "the table has angles already, not frequencies: don't multiply by the position",
            {
                "tl.cos(angle)": "tl.cos(position * angle)",
                "tl.sin(angle)": "tl.sin(position * angle)",
            },
        ),
    ]


_OF_A_TAIL = (
    Mistake("the partner is the neighbor, but partners are half of D2 apart", partner="column ^ 1"),
    Mistake(
        "the first is paired with the last, but partners are half of D2 apart",
        partner="D2 - 1 - column",
    ),
    Mistake(
        "all of D2 is added and subtracted, but partners are half of D2 apart",
        partner="tl.where(in_first_half, column + D2, column - D2)",
    ),
    Mistake(
        "every column is treated as the first half, which ends at D2 // 2",
        in_first_half="column < D2",
    ),
    Mistake(
        "the sign depends on half of D: use half of D2",
        quarter="tl.where(column < D // 2, -x_partner, x_partner)",
    ),
    Mistake("halves and partners depend on half of D: use half of D2", {"D2 // 2": "D // 2"}),
    Mistake("halves depend on half of D: use half of D2", in_first_half="column < D // 2"),
    Mistake(
        "partners depend on half of D: use half of D2",
        partner="tl.where(in_first_half, column + D // 2, column - D // 2)",
    ),
    Mistake(
        "the partner is computed with % D: in the second half it is in the tail; use D2",
        partner="(column + D2 // 2) % D",
    ),
    Mistake("the column is computed with % D2, but a row has D elements", column="i % D2"),
    Mistake(
        "heads are counted by D2, but each has D elements in memory",
        head="i // D2 % heads",
        sequence="i // (D2 * heads) % batch",
        position="i // (D2 * heads * batch)",
    ),
    Mistake(
        "every index is counted by D2, but each head has D elements in memory",
        {"D=d, D2=d2": "D=d2, D2=d2"},
    ),
    Mistake(
        "the table has D2 columns: its rows are D2 apart, not D",
        {"position * D2 + column": "position * D + column"},
    ),
    Mistake(
        "the tail loads angles of the next position: their mask has to be false there",
        angle="tl.load(freqs_ptr + position * D2 + column, mask=exists)",
    ),
    Mistake(
        "the tail loads partners and angles: `rotates` has to be false there", rotates="exists"
    ),
    Mistake(
        "all of D still rotates: the table, the halves and two masks must use D2",
        {"D2 // 2": "D // 2", "position * D2": "position * D"},
        rotates="exists",
    ),
    Mistake(
        "all of D still rotates: halves and two masks must use D2, as the table's rows do",
        {"D2 // 2": "D // 2"},
        rotates="exists",
    ),
    Mistake(
        "the masks use D2: halves, partners and the table's rows must, too",
        {"D2 // 2": "D // 2", "position * D2": "position * D"},
    ),
    Mistake(
        "halves use D2: two masks and the table's rows must, too",
        {"position * D2": "position * D"},
        rotates="exists",
    ),
    Mistake("column D2 is the first of the tail: <, not <=", rotates="exists & (column <= D2)"),
    Mistake(
        "only the first half rotates: columns rotate up to D2, and D2 // 2 is half of that",
        rotates="exists & (column < D2 // 2)",
    ),
    Mistake(
        "the last D2 columns rotate, but the first ones should",
        rotates="exists & (column >= D - D2)",
    ),
    Mistake(
        "the mask depends on i, which counts all elements of t: use column",
        rotates="exists & (i < D2)",
    ),
    Mistake(
        "the tail's angle is 1: `other=0.0` gives it the angle 0, whose cosine is 1",
        angle="tl.load(freqs_ptr + position * D2 + column, mask=rotates, other=1.0)",
    ),
    Mistake(
        "the tail is stored as 0: its elements are masked off where they are loaded",
        {"column * stride_d, mask=exists": "column * stride_d, mask=column < D2, other=0.0"},
    ),
)

# `rope` by one kernel
rope_of_any_strides = spec(
    rope.function,
    **_ONE_KERNEL,
    contiguous=True,
    extra=TWO_BLOCKS_FOR_ONE,
    mistakes=RUNG_1.with_mistakes(*_OF_A_TAIL, *mistakes_of_rotating("D2")),
    unmasked=UNMASKED,
)

# A wrong distance between rows, which is 2 * HALF: the verdict's words -> the wrong factor.
_APART = {
    "rows are 2 * HALF apart in memory, and HALF is half of that": " * HALF",
    "rows are 2 * HALF apart in memory, and `rows` says how many there are": " * rows",
    "rows are 2 * HALF apart in memory: the row's number needs this factor": "",
}

# Mistakes in a row's kernel, also for one whose pairs have one angle.
MISTAKES_OF_A_ROW = (
    Mistake(
        "the second member is HALF further, and BLOCK_HALF is the width of the block",
        {"+ HALF": "+ BLOCK_HALF"},
    ),
    Mistake("the second member is HALF further, and not the next element", {"+ HALF": "+ 1"}),
    Mistake(
        "the second member is HALF further, in t, in the table and in the result",
        {"+ HALF": "+ 0"},
    ),
    Mistake(
        "both results are stored in the first half: the second one's place is HALF further",
        {"(out_ptr + offset + HALF": "(out_ptr + offset"},
    ),
    Mistake(
        "the second member is loaded BLOCK_HALF further and stored HALF further: HALF in both",
        {"(t_ptr + offset + HALF": "(t_ptr + offset + BLOCK_HALF"},
    ),
    Mistake(
        "the second member is HALF further, where it is loaded, and not the next element",
        {"(t_ptr + offset + HALF": "(t_ptr + offset + 1"},
    ),
    Mistake(
        "the second member is HALF further, and 2 * HALF further is the next row",
        {"(t_ptr + offset + HALF": "(t_ptr + offset + 2 * HALF"},
    ),
    Mistake(
        "the second member is HALF after the first one, and not before it",
        {"(t_ptr + offset + HALF": "(t_ptr + offset - HALF"},
    ),
    Mistake(
        "the first member is paired with the last one, and its partner is HALF further",
        {"(t_ptr + offset + HALF": "(t_ptr + offset + 2 * HALF - 1 - 2 * pair"},
    ),
    Mistake(
        "the first member is in column pair, and 2 * pair is the first of two neighbors",
        offset="row * 2 * HALF + 2 * pair",
    ),
    Mistake(
        "neighbors are loaded, and halves are stored: the members of a pair are HALF apart",
        {
            "(t_ptr + offset, ": "(t_ptr + offset + pair, ",
            "(t_ptr + offset + HALF": "(t_ptr + offset + pair + 1",
        },
    ),
    Mistake(
        "the first member is loaded from the table: begin at t_ptr",
        {"x1 = tl.load(t_ptr": "x1 = tl.load(freqs_ptr"},
    ),
    Mistake(
        "the second member is loaded from the table: begin at t_ptr",
        {"x2 = tl.load(t_ptr": "x2 = tl.load(freqs_ptr"},
    ),
    Mistake(
        "the angle is that of the row's number: a position has `rows` rows, so row // rows",
        position="row",
    ),
    Mistake(
        "the table has one row for each position, not for each row of t",
        {"position * 2 * HALF": "position * rows * 2 * HALF"},
    ),
    Mistake(
        "rows of the table are 2 * HALF apart, and BLOCK_HALF is the width of the block",
        {"position * 2 * HALF": "position * 2 * BLOCK_HALF"},
    ),
    Mistake(
        "rows of the table are 2 * HALF apart: position needs this factor",
        {"position * 2 * HALF": "position"},
    ),
    *(Mistake(words, offset=f"row{factor} + pair") for words, factor in _APART.items()),
    Mistake(
        "rows are 2 * HALF apart in memory, and BLOCK_HALF is the width of the block",
        offset="row * 2 * BLOCK_HALF + pair",
    ),
    Mistake(
        "a row of t begins at row * 2 * HALF, not at position * 2 * HALF",
        offset="position * 2 * HALF + pair",
    ),
    Mistake(
        "the first result is stored in both halves",
        {
            "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)": (
                "x1 * tl.cos(angle1) - x2 * tl.sin(angle1)"
            )
        },
    ),
    Mistake(
        "the second result is stored in both halves",
        {
            "x1 * tl.cos(angle1) - x2 * tl.sin(angle1)": (
                "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)"
            )
        },
    ),
    Mistake("tl.sin is missing: the angle itself multiplies the partner", {"tl.sin": ""}),
)
_OF_TWO_ANGLES = (
    Mistake(
        "the first angle is that of the row's number, but should be that of its position",
        {"angle1 = tl.load(angle_ptr": "angle1 = tl.load(freqs_ptr + row * 2 * HALF + pair"},
    ),
    Mistake(
        "the second member is loaded and stored BLOCK_HALF further: HALF, as its angle is",
        {"offset + HALF": "offset + BLOCK_HALF"},
    ),
    Mistake(
        "the second member is stored BLOCK_HALF further and loaded HALF further: HALF in both",
        {"(out_ptr + offset + HALF": "(out_ptr + offset + BLOCK_HALF"},
    ),
    Mistake(
        "the second member is loaded and stored one element further: HALF, as its angle is",
        {"offset + HALF": "offset + 1"},
    ),
    Mistake(
        "the second member is HALF further, in t and in the result", {"offset + HALF": "offset"}
    ),
    Mistake(
        "2 * HALF further is the next row: the second member is HALF further, as its angle is",
        {"offset + HALF": "offset + 2 * HALF"},
    ),
    Mistake(
        "2 * HALF further are the next position's angles: the second angle is HALF further",
        {"angle_ptr + HALF": "angle_ptr + 2 * HALF"},
    ),
    Mistake(
        "the second member's angle is HALF further in its row of the table, not BLOCK_HALF",
        {"angle_ptr + HALF": "angle_ptr + BLOCK_HALF"},
    ),
    Mistake(
        "neighbors are loaded, and angles of neighbors, but the members of a pair are HALF apart",
        {
            "(t_ptr + offset, ": "(t_ptr + offset + pair, ",
            "(t_ptr + offset + HALF": "(t_ptr + offset + pair + 1",
            "(angle_ptr, ": "(angle_ptr + pair, ",
            "(angle_ptr + HALF": "(angle_ptr + pair + 1",
        },
    ),
    Mistake("the angles are loaded from t: begin at freqs_ptr", {"= freqs_ptr +": "= t_ptr +"}),
    Mistake(
        "the second angle is that of the row's number, but should be that of its position",
        {"(angle_ptr + HALF": "(freqs_ptr + row * 2 * HALF + pair + HALF"},
    ),
)
_ROWS = "(position * rows + row) * 2 * HALF"
# Mistakes in a tile's kernel. Its stores are in another order, and the last store to an element
# wins.
_OF_A_TILE = (
    Mistake(
        "the first member is in column pair, and 2 * pair is the first of two neighbors (in a "
        "tile)",
        {"+ pair[None, :]": "+ 2 * pair[None, :]"},
    ),
    *(
        Mistake(f"{words} (in a tile)", {_ROWS: f"(position * rows + row){factor}"})
        for words, factor in _APART.items()
    ),
    Mistake(
        "row counts within its position: position * rows comes before it",
        {_ROWS: "row * 2 * HALF"},
    ),
    Mistake(
        "row counts within its position, and rows are 2 * HALF apart in memory", {_ROWS: "row"}
    ),
    Mistake(
        "position + row: `rows` rows come before the next position, so position * rows + row",
        {_ROWS: "(position + row) * 2 * HALF"},
    ),
    Mistake(
        "position + row * rows: the factor belongs to the position, so position * rows + row",
        {_ROWS: "(position + row * rows) * 2 * HALF"},
    ),
    Mistake(
        "2 * HALF multiplies row alone: parentheses around position * rows + row",
        {_ROWS: "position * rows + row * 2 * HALF"},
    ),
    Mistake(
        "2 * HALF multiplies position alone: parentheses around position * rows + row",
        {_ROWS: "position * rows * 2 * HALF + row"},
    ),
    Mistake(
        "a position has `rows` rows in memory, however many lanes its programs have",
        {_ROWS: "(position * row_blocks * BLOCK_R + row) * 2 * HALF"},
    ),
    Mistake(
        "the tile's mask is true for lanes past HALF, which store in the next row: is `pair < "
        "HALF` in it, joined by &?",
        exists="(row < rows)[:, None]",
    ),
)

# for contiguous tensors whose heads rotate as a whole
_OF_WHOLE_ROWS = _OF_ROWS | {
    "mistakes": RUNG_2.with_mistakes(*MISTAKES_OF_A_ROW, *_OF_TWO_ANGLES)
    | RUNG_3.with_mistakes(*_OF_A_TILE),
    "unmasked": f"{UNMASKED}. Pairs end at HALF, and a tile's rows at `rows`",
}
rope_of_whole_rows = spec(rope.function, **_OF_WHOLE_ROWS)
_INPLACE = {"leave_out": (*_WITHOUT, MANY)}  # a large tensor takes a second: once is enough
rope_of_whole_rows_in_place = spec(rope.function, **_OF_ROWS | _INPLACE, overwrites=("t",))

_SINES = "sin1, sin2 = -sin2, -sin1"  # the line that turns the forward into the backward
_OF_THE_GRADIENT = _BACKWARD.with_mistakes(
    Mistake(
        "sin2 is still the forward's: is it made of sin1, which is -sin2 by then?",
        {_SINES: "sin1 = -sin2\n        sin2 = -sin1"},
    ),
    Mistake(
        "sin1 is still the forward's: is it made of sin2, which is -sin1 by then?",
        {_SINES: "sin2 = -sin1\n        sin1 = -sin2"},
    ),
    Mistake(
        "the cosines are exchanged, where the sines have to be, with a sign",
        {_SINES: "cos1, cos2 = cos2, cos1"},
    ),
    Mistake(
        "each half has the cosine and the sine of the other: exchange the sines, with a sign",
        {_SINES: "sin1, sin2, cos1, cos2 = sin2, sin1, cos2, cos1"},
    ),
    Mistake(
        "x1 and x2 are exchanged, where the sines have to be, with a sign",
        {
            _SINES: "pass",
            "    tl.store(out_ptr + offset, x1": (
                "    if TRANSPOSE:\n        x1, x2 = x2, x1\n    tl.store(out_ptr + offset, x1"
            ),
        },
    ),
    Mistake(
        "the cosines are negated, where the sines have to be, and exchanged",
        {_SINES: "cos1, cos2 = -cos1, -cos2"},
    ),
)

# the transposed map; the halves of a table may differ
_GRADIENT = _OF_ROWS | {"mistakes": _OF_THE_GRADIENT}
rope_of_whole_rows_gradient = spec(rope_gradient.function, **_GRADIENT)
rope_of_gradient_in_place = spec(
    rope_gradient.function, **_GRADIENT | _INPLACE, overwrites=("grad",)
)
