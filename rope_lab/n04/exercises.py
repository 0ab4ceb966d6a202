"""Notebook 04: the first RoPE kernels."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.climb.specifications import UNMASKED, mistakes_of_rotating
from ..judge.definitions import TWO_BLOCKS_FOR_ONE, rope
from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..judge.lines import copy_by_lines
from ..judge.spec import spec
from ..rungs import RUNGS

# what becomes of five calls of the first kernel
OUTCOMES = ("right", "wrong", "refused")
FIVE_TESTS = {
    "one sequence, contiguous: row r is where the kernel looks for it": {1: "wrong"},
    "32 is a power of two, and Triton asks for no more": {1: "refused"},
    "three sequences have three times as many rows as the grid": {2: "right"},
    "16 is a power of two; Triton does not count rows": {2: "refused"},
    "only dimensions of size 1 moved: row r is where it was": {3: "wrong"},
    "16 is a power of two; Triton does not ask for strides": {3: "refused"},
    "a row begins 48 elements after the one before, and the kernel expects 16": {4: "right"},
    "the kernel is never told the strides, so nothing can refuse them": {4: "refused"},
    "the result is not the question: `tl.arange` takes powers of two": {5: "right"},
    "no program runs: `tl.arange` takes powers of two": {5: "wrong"},
}


_OF_INDICES = {
    "the sequence: i // (D * heads) counts the tokens of all positions; % batch is missing": (
        copy_by_lines(sequence="i // (D * heads)")
    ),
    "the sequence: there are `batch` of them, so % batch, not % heads": (
        copy_by_lines(sequence="i // (D * heads) % heads")
    ),
    "the sequence: % and // have changed places; divide first, then take the remainder": (
        copy_by_lines(sequence="i % (D * heads) // batch")
    ),
    "the sequence: a token has D * heads elements: divide by both, not by D alone": (
        copy_by_lines(sequence="i // D % batch")
    ),
    "the sequence: a token has D * heads elements: divide by both, not by heads alone": (
        copy_by_lines(sequence="i // heads % batch")
    ),
    "the sequence: i // D * heads divides, and then multiplies: parentheses, i // (D * heads)": (
        copy_by_lines(sequence="i // D * heads % batch")
    ),
    "the load begins at t_ptr, at the first row of t: begin at row_ptr": (
        copy_by_lines(x="load(t_ptr, column * stride_d)")
    ),
    "columns are stride_d apart, not stride_h": copy_by_lines(
        x="load(t_ptr, row + column * stride_h)"
    ),
    "each index has the stride of the next one: stride_s is for positions": (
        copy_by_lines(row="position * stride_b + sequence * stride_h + head * stride_d")
    ),
    "all positions take the elements of position 0: position * stride_s is missing": (
        copy_by_lines(row="sequence * stride_b + head * stride_h")
    ),
    "a position is stride_s elements after the one before, not 1": (
        copy_by_lines(row="position + sequence * stride_b + head * stride_h")
    ),
    "all sequences take the elements of sequence 0: sequence * stride_b is missing, or sequence "
    "is always 0": (copy_by_lines(row="position * stride_s + head * stride_h")),
    "a sequence is stride_b elements after the one before, not 1": (
        copy_by_lines(row="position * stride_s + sequence + head * stride_h")
    ),
    "all heads take the elements of head 0: head * stride_h is missing": (
        copy_by_lines(row="position * stride_s + sequence * stride_b")
    ),
    "a head is stride_h elements after the one before, not 1": (
        copy_by_lines(row="position * stride_s + sequence * stride_b + head")
    ),
    "t comes out in the order of its memory: load by the strides of t, store at out_ptr + i": (
        copy_by_lines(place="row + column * stride_d")
    ),
    "each element has a place of its own in the result: store at out_ptr + i": (
        copy_by_lines(place="column")
    ),
    "column * stride_d is missing in the address": copy_by_lines(x="load(t_ptr, row)"),
    "sequences and heads have changed places: in row_ptr two strides": (
        copy_by_lines(row="position * stride_s + sequence * stride_h + head * stride_b")
    ),
    "positions and sequences have changed places: in row_ptr two strides": (
        copy_by_lines(row="position * stride_b + sequence * stride_s + head * stride_h")
    ),
    "the sequence: divided by batch, too, it is the position: % batch, which begins again with "
    "each": copy_by_lines(sequence="i // (D * heads * batch)"),
    "the sequence: a remainder first counts elements: divide i by D * heads, then take %": (
        copy_by_lines(sequence="i % batch")
    ),
    "i is the place in the result: a row of t begins at t_ptr + three products of index and "
    "stride": copy_by_lines(row="i"),
    "i is added to the row's address, which has position, sequence and head already": (
        copy_by_lines(row="position * stride_s + sequence * stride_b + head * stride_h + i")
    ),
    "column * stride_d is added twice, in row_ptr and in the load": copy_by_lines(
        x="load(t_ptr, row + 2 * column * stride_d)"
    ),
    "each index needs its stride: position * stride_s, and so on": copy_by_lines(
        row="position + sequence + head"
    ),
    "columns are stride_d apart, and D is how many there are": copy_by_lines(
        x="load(t_ptr, row + column * D)"
    ),
    "one stride for all: each index has its own": (
        copy_by_lines(row="(position + sequence + head) * stride_s")
    ),
    "i counts from the first element of t, and row_ptr is at the row: add column * stride_d": (
        copy_by_lines(x="load(t_ptr, row + i)")
    ),
}


@spec(
    kernel=True,
    launches=1,
    extra=TWO_BLOCKS_FOR_ONE,
    mistakes=_OF_INDICES,
    unmasked="every result is right, so only a mask is missing, or true for lanes past the end",
)
def strided_copy(t: "(s, b, h, d)"):
    """The same elements, one after the other in memory."""
    return t.clone()


# with nothing beside what rotates
rope_of_whole_heads = spec(
    rope.function,
    kernel=True,
    launches=1,
    leave_out=("part of the head rotated",),
    extra=TWO_BLOCKS_FOR_ONE,
    mistakes=mistakes_of_rotating("D"),
    unmasked=UNMASKED,
)


RIGHT_WRONG_OR_REFUSED = Exercise(
    cell="04-ex1",
    judged_by=FIVE_TESTS,
    wrong_answers=(
        WrongValue(
            given=["right", "right", "right", "wrong", "refused"],
            told="three times as many rows as the grid",
        ),
        WrongValue(
            given=["right", "wrong", "right", "wrong", "maybe"],
            told="'maybe' is none of right, wrong, refused",
        ),
    ),
)

COPY_WITH_STRIDES = Exercise(
    cell="04-ex3",
    judged_by=strided_copy,
    wrong_answers=(
        WrongAnswer(
            mistake="no parentheses",
            instead={"sequence = i // (D * heads) % batch": "sequence = i // D * heads % batch"},
            told="i // D * heads divides, and then multiplies: parentheses",
        ),
        WrongAnswer(
            mistake="the last stride forgotten",
            instead={"column * stride_d": "column"},
            told="a wrong stride: the last one is forgotten",
        ),
        WrongAnswer(
            mistake="sequences of all positions",
            instead={"sequence = i // (D * heads) % batch": "sequence = i // (D * heads)"},
            told="% batch is missing",
        ),
        WrongAnswer(
            mistake="no stride of positions",
            instead={"position * stride_s + ": ""},
            told="all positions take the elements of position 0",
        ),
        WrongAnswer(
            mistake="positions one element apart",
            instead={"position * stride_s": "position"},
            told="a position is stride_s elements after the one before, not 1",
        ),
        WrongAnswer(
            mistake="two strides exchanged",
            instead={
                "position * stride_s + sequence * stride_b": (
                    "position * stride_b + sequence * stride_s"
                ),
            },
            told="positions and sequences have changed places: in row_ptr two strides",
        ),
        WrongAnswer(
            mistake="two other strides exchanged",
            instead={
                "sequence * stride_b + head * stride_h": "sequence * stride_h + head * stride_b"
            },
            told="sequences and heads have changed places: in row_ptr two strides",
        ),
        WrongAnswer(
            mistake="heads side by side",
            instead={"head * stride_h": "head * D"},
            told="that of heads is taken for a contiguous tensor's",
        ),
        WrongAnswer(
            mistake="i in the input",
            instead={"row_ptr + column * stride_d": "t_ptr + i"},
            told="t comes out in the order of its memory: load by the strides of t",
        ),
        WrongAnswer(
            mistake="the strides of t in the result",
            instead={
                "out_ptr + i,": (
                    "out_ptr + position * stride_s + sequence * stride_b "
                    "+ head * stride_h + column * stride_d,"
                )
            },
            told="t comes out in the order of its memory",
        ),
        WrongAnswer(
            mistake="i from the row on",
            instead={"row_ptr + column * stride_d": "row_ptr + i"},
            told="row_ptr is at the row: add column * stride_d",
        ),
        WrongAnswer(
            mistake="the column in the output",
            instead={"out_ptr + i, x": "out_ptr + column, x"},
            told="each element has a place of its own in the result",
        ),
        WrongAnswer(
            mistake="no mask",
            instead={", mask=exists": ""},
            told="every result is right, so only a mask is missing",
        ),
        WrongAnswer(
            mistake="a quotient with a fraction",
            instead={"sequence = i // (D * heads) %": "sequence = i / (D * heads) %"},
            told="an index is a whole number: a // b, not a / b",
        ),
        WrongAnswer(
            mistake="no pointer",
            instead={"row_ptr = t_ptr + ": "row_ptr = "},
            told="an address begins with a pointer",
        ),
        WrongAnswer(
            mistake="a division for the remainder",
            instead={"sequence = i // (D * heads) % batch": "sequence = i // (D * heads) // batch"},
            told="the sequence: divided by batch, too, it is the position",
        ),
        WrongAnswer(
            mistake="a remainder before the division",
            instead={"sequence = i // (D * heads) % batch": "sequence = i % batch"},
            told="the sequence: a remainder first counts elements",
        ),
        WrongAnswer(
            mistake="the position for the sequence",
            instead={"sequence = i // (D * heads) % batch": "sequence = i // (D * heads * batch)"},
            told="the sequence: divided by batch, too, it is the position",
        ),
        WrongAnswer(
            mistake="rows at i",
            instead={
                "t_ptr + position * stride_s + sequence * stride_b + head * stride_h": "t_ptr + i"
            },
            told="a row of t begins at t_ptr + three products",
        ),
        WrongAnswer(
            mistake="i beside the row",
            instead={"head * stride_h\n": "head * stride_h + i\n"},
            told="i is added to the row's address",
        ),
        WrongAnswer(
            mistake="columns twice",
            instead={"head * stride_h\n": "head * stride_h + column * stride_d\n"},
            told="column * stride_d is added twice",
        ),
        WrongAnswer(
            mistake="no strides",
            instead={
                "position * stride_s + sequence * stride_b + head * stride_h": (
                    "position + sequence + head"
                )
            },
            told="each index needs its stride",
        ),
        WrongAnswer(
            mistake="columns D apart",
            instead={"column * stride_d": "column * D"},
            told="columns are stride_d apart, and D is how many there are",
        ),
        WrongAnswer(
            mistake="a stride in the result",
            instead={"out_ptr + i,": "out_ptr + i * stride_d,"},
            told="because: t comes out in the order of its memory",
        ),
        WrongAnswer(
            mistake="the input stored",
            instead={"out_ptr + i,": "t_ptr + i,"},
            told="unwritten: the kernel stores in t_ptr, and the result is its out_ptr",
        ),
        WrongAnswer(
            mistake="rows of the output",
            instead={"row_ptr = t_ptr": "row_ptr = out_ptr"},
            told="the kernel loads from out_ptr, which is the result",
        ),
        WrongAnswer(
            mistake="no index in the result",
            instead={"out_ptr + i,": "out_ptr,"},
            told="an address is pointer + index, for each lane",
        ),
    ),
)

PARTNER_AND_ANGLE = Exercise(
    cell="04-ex4",
    judged_by=rope_of_whole_heads,
    wrong_answers=(
        WrongAnswer(
            mistake="a difference for the sum",
            instead={"+ quarter *": "- quarter *"},
            told="a sign: it rotates by minus the angle",
        ),
        WrongAnswer(
            mistake="the stride forgotten for the partner",
            instead={"row_ptr + partner * stride_d": "row_ptr + partner"},
            told="the last one is forgotten for the partner",
        ),
        WrongAnswer(
            mistake="no sign",
            instead={"quarter * tl.sin": "x_partner * tl.sin"},
            told="a sign: that of the sine in the first half",
        ),
        WrongAnswer(
            mistake="the partner by i",
            instead={"row_ptr + partner * stride_d": "t_ptr + i - column + partner"},
            told="the partner is sought as if t were contiguous",
        ),
        WrongAnswer(
            mistake="a partner of the first row",
            instead={"row_ptr + partner": "t_ptr + partner"},
            told="the partner is sought in the first row of t",
        ),
        WrongAnswer(
            mistake="the angle of element i",
            instead={"freqs_ptr + position * D + column": "freqs_ptr + i"},
            told="all rows of a position share theirs: ask position",
        ),
        WrongAnswer(
            mistake="the table by the strides of t",
            instead={
                "freqs_ptr + position * D + column": "freqs_ptr + position * stride_s + column"
            },
            told="t's stride says nothing about them",
        ),
        WrongAnswer(
            mistake="the angle of position 0",
            instead={"freqs_ptr + position * D + column": "freqs_ptr + column"},
            told="the angle is that of 0, the first position",
        ),
        WrongAnswer(
            mistake="the partner's angle",
            instead={"freqs_ptr + position * D + column": "freqs_ptr + position * D + partner"},
            told="each half takes the angles of the other",
        ),
        WrongAnswer(
            mistake="the element for its partner",
            instead={"row_ptr + partner * stride_d": "row_ptr + column * stride_d"},
            told="the partner is missing: the sine multiplies the element itself",
        ),
        WrongAnswer(
            mistake="sine and cosine exchanged",
            instead={
                "x * tl.cos(angle) + quarter * tl.sin(angle)": (
                    "x * tl.sin(angle) + quarter * tl.cos(angle)"
                ),
            },
            told="sine and cosine have changed places",
        ),
        WrongAnswer(
            mistake="no sine",
            instead={"quarter * tl.sin(angle)": "quarter * angle"},
            told="tl.sin is missing",
        ),
        WrongAnswer(
            mistake="no mask for the angle",
            instead={"position * D + column, mask=exists": "position * D + column"},
            told="so a mask is missing",
        ),
        WrongAnswer(
            mistake="no stride on the way",
            instead={
                "row_ptr + partner * stride_d": "row_ptr + column * stride_d + partner - column"
            },
            told="and these are stride_d apart: partner * stride_d",
        ),
        WrongAnswer(
            mistake="no column for the angle",
            instead={"freqs_ptr + position * D + column": "freqs_ptr + position"},
            told="column is missing in the address of the angle",
        ),
        WrongAnswer(
            mistake="half a table",
            instead={"position * D + column,": "position * (D // 2) + column % (D // 2),"},
            told="the table has D columns",
        ),
        WrongAnswer(
            mistake="the table by the last stride of t",
            instead={"position * D + column,": "position * D + column * stride_d,"},
            told="columns of the table are neighbors",
        ),
        WrongAnswer(
            mistake="angles of t",
            instead={"tl.load(freqs_ptr": "tl.load(t_ptr"},
            told="the angle is loaded from t",
        ),
        WrongAnswer(
            mistake="a product for the sum",
            instead={"x * tl.cos(angle) + quarter": "x * tl.cos(angle) * quarter"},
            told="two products are multiplied",
        ),
        WrongAnswer(
            mistake="the result by the strides of t",
            instead={
                "out_ptr + i,": (
                    "out_ptr + position * stride_s + sequence * stride_b "
                    "+ head * stride_h + column * stride_d,"
                )
            },
            told="the result is stored by the strides of t",
        ),
        WrongAnswer(
            mistake="a stride in the result",
            instead={"out_ptr + i,": "out_ptr + i * stride_d,"},
            told="because: the result is stored by the strides of t",
        ),
        WrongAnswer(
            mistake="the column in the result",
            instead={"out_ptr + i,": "out_ptr + column,"},
            told="each element has a place of its own in the result",
        ),
        WrongAnswer(
            mistake="the partner's place",
            instead={"out_ptr + i,": "out_ptr + i - column + partner,"},
            told="it is stored at its partner's place",
        ),
        WrongAnswer(
            mistake="the input stored",
            instead={"out_ptr + i,": "t_ptr + i,"},
            told="the kernel stores in t_ptr, and the result is its out_ptr",
        ),
        WrongAnswer(
            mistake="the partner from the output",
            instead={
                "tl.load(row_ptr + partner * stride_d": "tl.load(out_ptr + i - column + partner"
            },
            told="the kernel loads from out_ptr, which is the result",
        ),
        WrongAnswer(
            mistake="an angle in half precision",
            instead={
                "column, mask=exists)\n    quarter": (
                    "column, mask=exists).to(tl.float16)\n    quarter"
                )
            },
            told="tl.sin and tl.cos take fp32",
        ),
    ),
)

RUNG_1 = Exercise(
    cell="04-ex2",
    judged_by=RUNGS[1],
    wrong_answers=(
        WrongAnswer(
            mistake="the sign of the other half",
            instead={
                "(in_first_half, -x_partner, x_partner)": "(in_first_half, x_partner, -x_partner)"
            },
            told="a sign: it rotates by minus the angle",
        ),
        WrongAnswer(
            mistake="a stride that is not used",
            instead={"column * stride_d, mask=exists": "column, mask=exists"},
            told="the last one is forgotten for the element itself",
        ),
        WrongAnswer(
            mistake="sequence and head exchanged",
            instead={
                "i // D % heads": "i // (D * batch) % heads",
                "i // (D * heads) %": "i // D %",
            },
            told="the wrong row: sequence and head are counted in the other order",
        ),
        WrongAnswer(
            mistake="the tail rotated by what is there",
            instead={"mask=rotates, other=0.0)\n    quarter": "mask=rotates)\n    quarter"},
            told="a load without `other` leaves it undefined",
        ),
        WrongAnswer(
            mistake="every element loaded three times",
            instead={
                "    rotates =": (
                    "    again = tl.load(row_ptr + column * stride_d, mask=exists)\n"
                    "    x = (x + again.to(tl.float32)) / 2\n"
                    "    rotates ="
                )
            },
            told="each element of t is loaded 3 times",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="cos and sin evaluated twice",
            instead={
                "x * tl.cos(angle) +": "x * tl.cos(angle + 0.0) * tl.cos(angle) / tl.cos(angle) +"
            },
            told="rung 1 wants sin/cos evaluations at most 4 a pair",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="the sign by half of the head",
            instead={"tl.where(in_first_half, -x_partner": "tl.where(column < D // 2, -x_partner"},
            told="the sign by half of D, where half of D2 decides",
        ),
        WrongAnswer(
            mistake="halves of the head",
            instead={"D2 // 2": "D // 2"},
            told="halves and partners by half of D, where half of D2 decides",
        ),
        WrongAnswer(
            mistake="the partner modulo the head",
            instead={
                "tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": (
                    "(column + D2 // 2) % D"
                )
            },
            told="the partner by % D: in the second half it is in the tail",
        ),
        WrongAnswer(
            mistake="the column modulo what rotates",
            instead={"column = i % D": "column = i % D2"},
            told="the column by % D2, where a row has D elements",
        ),
        WrongAnswer(
            mistake="neighbors",
            instead={"tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "column ^ 1"},
            told="the partner is the neighbor, where half of D2 is between",
        ),
        WrongAnswer(
            mistake="a whole part to the partner",
            instead={"column + D2 // 2, column - D2 // 2": "column + D2, column - D2"},
            told="all of D2 is added and taken away",
        ),
        WrongAnswer(
            mistake="all that rotates for the first half",
            instead={"in_first_half = column < D2 // 2": "in_first_half = column < D2"},
            told="every column is taken for the first half",
        ),
        WrongAnswer(
            mistake="from both ends",
            instead={
                "tl.where(in_first_half, column + D2 // 2, column - D2 // 2)": "D2 - 1 - column"
            },
            told="the first with the last, where half of D2 is between",
        ),
        WrongAnswer(
            mistake="a sine for both",
            instead={"x * tl.cos(": "x * tl.sin("},
            told="the wrong function: a sine for the cosine, in every element",
        ),
        WrongAnswer(
            mistake="the sign of the cosine",
            instead={"x * tl.cos(": "-x * tl.cos("},
            told="a sign: every cosine has the opposite sign",
        ),
        WrongAnswer(
            mistake="the element for its partner",
            instead={"-x_partner, x_partner)": "-x, x)"},
            told="the partner is missing: the sine multiplies the element itself",
        ),
        WrongAnswer(
            mistake="angles halved",
            instead={"tl.cos(angle)": "tl.cos(angle / 2)", "tl.sin(angle)": "tl.sin(angle / 2)"},
            told="the wrong angle: it turns by half the angle",
        ),
        WrongAnswer(
            mistake="the partner's angle",
            instead={"position * D2 + column": "position * D2 + partner"},
            told="the wrong angle: each half takes the angles of the other",
        ),
        WrongAnswer(
            mistake="rows of half a table",
            instead={"position * D2 + column": "position * (D2 // 2) + column"},
            told="a wrong stride: rows of the table are d2 apart, not d2 / 2",
        ),
        WrongAnswer(
            mistake="only the first half",
            instead={"(column < D2)": "(column < D2 // 2)"},
            told="unchanged in the second half: it comes out as it came",
        ),
        WrongAnswer(
            mistake="two strides exchanged",
            instead={
                "position * stride_s + sequence * stride_b": (
                    "position * stride_b + sequence * stride_s"
                )
            },
            told="those of positions and sequences have changed places",
        ),
        WrongAnswer(
            mistake="heads side by side",
            instead={"head * stride_h": "head * D"},
            told="that of heads is taken for a contiguous tensor's",
        ),
        WrongAnswer(
            mistake="the strides of the input",
            instead={"torch.empty(t.shape, dtype=t.dtype, device=t.device)": "torch.empty_like(t)"},
            told="a wrong stride: empty_like keeps those of its input",
        ),
        WrongAnswer(
            mistake="the batch for the heads",
            instead={"i // D % heads": "i // D % batch"},
            told="the wrong row: (0, 0, 1) of the result is made of t[0, 0, 0]",
        ),
        WrongAnswer(
            mistake="positions modulo the batch",
            instead={"i // (D * heads * batch)": "i // (D * heads * batch) % batch"},
            told="t[0, 0, 0], and turned by the angles of position 0, not of 1",
        ),
        WrongAnswer(
            mistake="a partner of the first row",
            instead={"row_ptr + partner": "t_ptr + partner"},
            told="the partner is sought in the first row of t",
        ),
        WrongAnswer(
            mistake="a neighbor's angle",
            instead={"position * D2 + column": "position * D2 + column // 2 * 2"},
            told="the wrong angle: (0, 0, 0, 1) of the result is turned by freqs[0, 0, 0, "
            "0], not by",
        ),
        WrongAnswer(
            mistake="an integer for the angle",
            instead={
                "column, mask=rotates, other=0.0)": (
                    "column, mask=rotates, other=0.0).to(tl.int32) * 1.0"
                )
            },
            told="the wrong angle: its fraction is gone; is it converted to an integer?",
        ),
        WrongAnswer(
            mistake="the sign by even and odd columns",
            instead={"tl.where(in_first_half, -x_partner": "tl.where(column % 2 == 0, -x_partner"},
            told="(0, 0, 0, 1) of the result takes -t[0, 0, 0, 5], not t[0, 0, 0, 5]",
        ),
        WrongAnswer(
            mistake="the tail masked off at the element",
            instead={
                "column * stride_d, mask=exists)": (
                    "column * stride_d, mask=exists & (column < D2), other=0.0)"
                ),
            },
            told="the tail is stored as 0",
        ),
        WrongAnswer(
            mistake="the tail masked off at the store",
            instead={"sin(angle), mask=exists": "sin(angle), mask=rotates"},
            told="the tail is forgotten: elements d2 and up are never written",
        ),
        WrongAnswer(
            mistake="no zeros",
            instead={"rotates, other=0.0": "rotates"},
            told="a load without `other` leaves it undefined",
        ),
        WrongAnswer(
            mistake="ones for zeros",
            instead={
                "D2 + column, mask=rotates, other=0.0": "D2 + column, mask=rotates, other=1.0"
            },
            told="the tail's angle is 1",
        ),
        WrongAnswer(
            mistake="the old mask for the angle",
            instead={"D2 + column, mask=rotates, other=0.0": "D2 + column, mask=exists"},
            told="the tail loads angles of the next position",
        ),
        WrongAnswer(
            mistake="rows of the table as long as those of t",
            instead={"position * D2 + column": "position * D + column"},
            told="its rows are D2 apart, not D",
        ),
        WrongAnswer(
            mistake="and for &",
            instead={"exists & (column < D2)": "exists and (column < D2)"},
            told="for and, or, not, if write &, |, ~, where",
        ),
        WrongAnswer(
            mistake="no parentheses",
            instead={"exists & (column < D2)": "exists & column < D2"},
            told="`exists & column < D2` means (exists & column) < D2",
        ),
        WrongAnswer(
            mistake="a mask that lets all past the end",
            instead={"exists & (column < D2)": "column < D2"},
            told="every result is right, so a mask is missing",
        ),
        WrongAnswer(
            mistake="column D2 rotates",
            instead={"exists & (column < D2)": "exists & (column <= D2)"},
            told="column D2 is the first of the tail",
        ),
        WrongAnswer(
            mistake="partners by half of the head",
            instead={"column + D2 // 2, column - D2 // 2": "column + D // 2, column - D // 2"},
            told="partners by half of D, where half of D2 decides",
        ),
        WrongAnswer(
            mistake="the result by the strides of t",
            instead={
                "out_ptr + i,": (
                    "out_ptr + position * stride_s + sequence * stride_b "
                    "+ head * stride_h + column * stride_d,"
                )
            },
            told="the result is stored by the strides of t",
        ),
        WrongAnswer(
            mistake="the column in the result",
            instead={"out_ptr + i,": "out_ptr + column,"},
            told="each element has a place of its own in the result",
        ),
        WrongAnswer(
            mistake="D2 for D",
            instead={"D=d, D2=d2": "D=d2, D2=d2"},
            told="every index is counted by D2",
        ),
        WrongAnswer(
            mistake="no stride on the way",
            instead={
                "row_ptr + partner * stride_d": "row_ptr + column * stride_d + partner - column"
            },
            told="and these are stride_d apart: partner * stride_d",
        ),
        WrongAnswer(
            mistake="the input stored",
            instead={"out_ptr + i,": "t_ptr + i,"},
            told="the kernel stores in t_ptr, and the result is its out_ptr",
        ),
    ),
)
