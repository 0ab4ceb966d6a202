"""Notebook 03: bytes of three loads, and the reader's first gather."""

from ..judge.definitions import rotate_half
from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..judge.lines import rotate_half_by_lines
from ..judge.spec import OTHER_BLOCK, STRIDED, Case, spec

# bytes that memory sends for three loads of a warp
_SENT_BYTES = {
    "the bytes that the threads use; memory sends whole sectors": {1: 128, 2: 64},
    "an aligned load; a late begin touches one sector more": {3: 128},
    "sectors, not bytes": {1: 16, 2: 32, 3: 5},
    "a sector for each thread; some threads share one": {1: 1024, 3: 1024},
    "whole cache lines; memory sends sectors of 32 bytes": {1: 2048, 2: 4096, 3: 256},
    "the elements take 4 bytes, but in bf16 they take 2": {2: 2048},
    "two threads share a sector, but here the elements are too far apart": {2: 512},
}

_SECTOR = 32  # bytes that memory sends at least
_THREADS = range(32)
_LOADS = (0, 4, 4), (0, 16, 2), (1, 1, 4)  # first element, elements between threads, bytes of one


def _sent(first: int, step: int, size: int) -> int:
    return _SECTOR * len({(first + step * thread) * size // _SECTOR for thread in _THREADS})


BYTES_OF_THREE_LOADS = {
    "right": [_sent(*load) for load in _LOADS],
    "unit": "bytes",
    "hint": "whole sectors, wherever they begin",
    "mistakes": _SENT_BYTES,
}


HOW_MANY_BYTES = Exercise(
    cell="03-ex2",
    judged_by=BYTES_OF_THREE_LOADS,
    wrong_answers=(
        WrongValue(given=[128, 1024, 160], told="the bytes that the threads use"),
        WrongValue(given=[512, 512, 160], told="two threads share a sector"),
    ),
)


# The kernel takes a contiguous tensor for a list of rows.
rotate_half_of_rows = spec(
    rotate_half.function,
    kernel=True,
    gathers=True,
    leave_out=STRIDED,
    extra=(Case(OTHER_BLOCK, {"s": 5, "b": 2, "h": 3, "d": 24}, options={"block_r": 8}),),
    unmasked="every result is right, so only the mask is wrong: it needs the rows and the columns, "
    "(row[:, None] < rows) & (column[None, :] < 2 * HALF)",
    mistakes={
        "rows are 2 * HALF apart in memory; BLOCK_C is the block's width": rotate_half_by_lines(
            x="load(x_ptr, row * BLOCK_C + partner)"
        ),
        "rows are 2 * HALF apart in memory; BLOCK_C is the width of the block": (
            rotate_half_by_lines(
                x="load(x_ptr, row * BLOCK_C + partner)", place="row * BLOCK_C + column"
            )
        ),
        "rows are 2 * HALF apart in memory: row needs this factor": rotate_half_by_lines(
            x="load(x_ptr, row + partner)", place="row + column"
        ),
        "rows are 2 * HALF apart in memory, and HALF is half of that": rotate_half_by_lines(
            x="load(x_ptr, row * HALF + partner)", place="row * HALF + column"
        ),
        "rows are 2 * HALF apart in memory, and `rows` says how many there are": (
            rotate_half_by_lines(x="load(x_ptr, row * rows + partner)", place="row * rows + column")
        ),
        "row and column have changed places: neighbors in a row are neighbors in memory": (
            rotate_half_by_lines(x="load(x_ptr, row + rows * partner)", place="row + rows * column")
        ),
        "rows are 2 * HALF apart in memory, where they are stored, too": rotate_half_by_lines(
            place="row * BLOCK_C + column"
        ),
        "rows are 2 * HALF apart in memory, where they are stored, too, and HALF is half of that": (
            rotate_half_by_lines(place="row * HALF + column")
        ),
        "rows are 2 * HALF apart in memory, where they are stored, too; `rows` is how many there "
        "are": rotate_half_by_lines(place="row * rows + column"),
        "rows are 2 * HALF apart in memory, and BLOCK_R is how many a program has": (
            rotate_half_by_lines(
                x="load(x_ptr, row * BLOCK_R + partner)", place="row * BLOCK_R + column"
            )
        ),
        "row multiplies the column as well: row * 2 * HALF + column, without parentheses": (
            rotate_half_by_lines(
                x="load(x_ptr, row * (2 * HALF + partner))", place="row * (2 * HALF + column)"
            )
        ),
        "it is loaded at the partner, and stored there as well: store at the column": (
            rotate_half_by_lines(place="row * 2 * HALF + partner")
        ),
        "rows are 2 * HALF apart in memory, not HALF": rotate_half_by_lines(
            x="load(x_ptr, row * HALF + partner)"
        ),
        "rows are 2 * HALF apart in memory: row needs that factor": rotate_half_by_lines(
            x="load(x_ptr, row + partner)"
        ),
        "rows are 2 * HALF apart in memory, and `rows` is how many there are": (
            rotate_half_by_lines(x="load(x_ptr, row * rows + partner)")
        ),
        "row and column have changed places: a column's neighbors are next to each other": (
            rotate_half_by_lines(x="load(x_ptr, row + rows * partner)")
        ),
        "every row takes the elements of the first one: the load's address has no row": (
            rotate_half_by_lines(x="load(x_ptr, partner)")
        ),
        "the element itself is loaded, where its partner is asked for": rotate_half_by_lines(
            x="load(x_ptr, row * 2 * HALF + column)"
        ),
        "both halves look HALF ahead, and the second one has to look back": (
            rotate_half_by_lines(partner="column + HALF")
        ),
        "the first half looks back for its partner, and the second one ahead: the other way": (
            rotate_half_by_lines(partner="where(in_first_half, column - HALF, column + HALF)")
        ),
        "column HALF is the first of the second half: <, not <=": rotate_half_by_lines(
            in_first_half="column <= HALF"
        ),
        "the second half is taken for the first: is it < in the comparison?": rotate_half_by_lines(
            in_first_half="column >= HALF"
        ),
        "columns past HALF are taken for the first half: is it < in the comparison?": (
            rotate_half_by_lines(in_first_half="column > HALF")
        ),
        "every column is taken for the first half, which ends at HALF": rotate_half_by_lines(
            in_first_half="column < 2 * HALF"
        ),
        "halves are taken for even and odd columns": rotate_half_by_lines(
            in_first_half="column % 2 == 0"
        ),
        "the first half ends at HALF, which is half of a row already": rotate_half_by_lines(
            in_first_half="column < HALF // 2"
        ),
        "HALF is half of a row already, and is halved again": rotate_half_by_lines(
            in_first_half="column < HALF // 2",
            partner="where(in_first_half, column + HALF // 2, column - HALF // 2)",
        ),
        "all of 2 * HALF is added and taken away, where HALF is between partners": (
            rotate_half_by_lines(
                partner="where(in_first_half, column + 2 * HALF, column - 2 * HALF)"
            )
        ),
        "half of BLOCK_C is added and taken away, where HALF is between partners": (
            rotate_half_by_lines(
                partner="where(in_first_half, column + BLOCK_C // 2, column - BLOCK_C // 2)"
            )
        ),
        "the sign is added, where it is a factor": rotate_half_by_lines(y="sign + x"),
        "half of BLOCK_C, where HALF decides: a block may be wider than a row": (
            rotate_half_by_lines(
                in_first_half="column < BLOCK_C // 2",
                partner="where(in_first_half, column + BLOCK_C // 2, column - BLOCK_C // 2)",
            )
        ),
        "the first half ends at HALF, not at half of BLOCK_C": rotate_half_by_lines(
            in_first_half="column < BLOCK_C // 2"
        ),
        "the partner by % BLOCK_C: a block may be wider than a row, which has 2 * HALF": (
            rotate_half_by_lines(partner="(column + HALF) % BLOCK_C")
        ),
        "the row from its end: the first with the last, where HALF is between partners": (
            rotate_half_by_lines(partner="2 * HALF - 1 - column")
        ),
        "the partner is the neighbor, where HALF is between partners": (
            rotate_half_by_lines(partner="column ^ 1")
        ),
        "HALF is the way to the partner, and its place is column + HALF or column - HALF": (
            rotate_half_by_lines(partner="where(in_first_half, HALF, -HALF)")
        ),
        "% 2 * HALF takes a remainder by 2, and then multiplies: parentheses, % (2 * HALF)": (
            rotate_half_by_lines(partner="(column + HALF) % 2 * HALF")
        ),
        "both halves look HALF back, and the first one has to look ahead": rotate_half_by_lines(
            partner="column - HALF"
        ),
        "row and column are multiplied: an address adds row * 2 * HALF and the column": (
            rotate_half_by_lines(x="load(x_ptr, row * partner)")
        ),
        "the sign is true or false, which is 1 or 0, and should be -1 or 1": rotate_half_by_lines(
            sign="in_first_half"
        ),
        "rows are 2 * HALF apart in memory, where they are stored, too: row needs this factor": (
            rotate_half_by_lines(place="row + column")
        ),
        "one element too few between partners": rotate_half_by_lines(
            partner="where(in_first_half, column + HALF - 1, column - HALF + 1)"
        ),
        "one element too many between partners": rotate_half_by_lines(
            partner="where(in_first_half, column + HALF + 1, column - HALF - 1)"
        ),
    },
)


ROWS_AND_COLUMNS = Exercise(
    cell="03-ex3",
    judged_by=rotate_half_of_rows,
    wrong_answers=(
        WrongAnswer(
            mistake="a mask of rows alone",
            instead={"(row[:, None] < rows) & (column[None, :] < 2 * HALF)": "row[:, None] < rows"},
            told="only the mask is wrong: it needs the rows and the columns",
        ),
        WrongAnswer(
            mistake="rows as far apart as the block is wide",
            instead={"* 2 * HALF +": "* BLOCK_C +"},
            told="rows are 2 * HALF apart in memory; BLOCK_C is the width of the block",
        ),
        WrongAnswer(
            mistake="a mask of columns alone",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": "column[None, :] < 2 * HALF"
            },
            told="only the mask is wrong: it needs the rows and the columns",
        ),
        WrongAnswer(
            mistake="no mask for the load",
            instead={"partner[None, :], mask=exists": "partner[None, :]"},
            told="only the mask is wrong: it needs the rows and the columns",
        ),
        WrongAnswer(
            mistake="and for &",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "(row[:, None] < rows) and (column[None, :] < 2 * HALF)"
                ),
            },
            told="for and, or, not, if write &, |, ~, where",
        ),
        WrongAnswer(
            mistake="no parentheses",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "row[:, None] < rows & column[None, :] < 2 * HALF"
                ),
            },
            told="means row[:, None] < (rows & column[None, :]) < 2 * HALF: put each",
        ),
        WrongAnswer(
            mistake="a mask without dimensions",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "(row < rows) & (column < 2 * HALF)"
                ),
            },
            told="[:, None] makes a column of a block, and [None, :] a row",
        ),
        WrongAnswer(
            mistake="an address without dimensions",
            instead={"row[:, None] * 2 * HALF + partner[None, :]": "row * 2 * HALF + partner"},
            told="[:, None] makes a column of a block, and [None, :] a row",
        ),
        WrongAnswer(
            mistake="no row in the address",
            instead={"x_ptr + row[:, None] * 2 * HALF +": "x_ptr +"},
            told="every row takes the elements of the first one",
        ),
        WrongAnswer(
            mistake="rows one element apart",
            instead={"row[:, None] * 2 * HALF": "row[:, None]"},
            told="rows are 2 * HALF apart in memory: row needs this factor",
        ),
        WrongAnswer(
            mistake="rows half as far apart",
            instead={"row[:, None] * 2 * HALF": "row[:, None] * HALF"},
            told="rows are 2 * HALF apart in memory, and HALF is half of that",
        ),
        WrongAnswer(
            mistake="the element itself",
            instead={"+ partner[None, :]": "+ column[None, :]"},
            told="the element itself is loaded, where its partner is asked for",
        ),
        WrongAnswer(
            mistake="always ahead",
            instead={"tl.where(in_first_half, column + HALF, column - HALF)": "column + HALF"},
            told="both halves look HALF ahead, and the second one has to look back",
        ),
        WrongAnswer(
            mistake="the other way",
            instead={
                "tl.where(in_first_half, column + HALF, column - HALF)": (
                    "tl.where(in_first_half, column - HALF, column + HALF)"
                ),
            },
            told="the first half looks back for its partner, and the second one ahead",
        ),
        WrongAnswer(
            mistake="half of the block",
            instead={"column < HALF": "column < BLOCK_C // 2"},
            told="the first half ends at HALF, not at half of BLOCK_C",
        ),
        WrongAnswer(
            mistake="column HALF in the first half",
            instead={"column < HALF": "column <= HALF"},
            told="column HALF is the first of the second half",
        ),
        WrongAnswer(
            mistake="one too few",
            instead={"column + HALF, column - HALF": "column + HALF - 1, column - HALF + 1"},
            told="one element too few between partners",
        ),
        WrongAnswer(
            mistake="neighbors",
            instead={"tl.where(in_first_half, column + HALF, column - HALF)": "column ^ 1"},
            told="the partner is the neighbor, where HALF is between partners",
        ),
        WrongAnswer(
            mistake="no sign",
            instead={"sign[None, :] * x": "x"},
            told="a sign: what is wrong has the opposite sign, in the first half",
        ),
        WrongAnswer(
            mistake="the signs of the halves swapped",
            instead={"in_first_half, -1, 1": "in_first_half, 1, -1"},
            told="every element has the opposite sign",
        ),
        WrongAnswer(
            mistake="a flat mask",
            instead={
                "(row[:, None] < rows) & (column[None, :] < 2 * HALF)": (
                    "row[:, None] * 2 * HALF + column[None, :] < rows * 2 * HALF"
                )
            },
            told="because: every result is right, so only the mask is wrong: it needs the rows and "
            "the columns",
        ),
        WrongAnswer(
            mistake="a scatter",
            instead={
                "+ partner[None, :]": "+ column[None, :]",
                "+ column[None, :], sign": ("+ partner[None, :], sign"),
            },
            told="the kernel scatters: it stores an element in its partner's place",
        ),
        WrongAnswer(
            mistake="a scatter with the other sign",
            instead={
                "in_first_half, -1, 1": "in_first_half, 1, -1",
                "+ partner[None, :]": "+ column[None, :]",
                "+ column[None, :], sign": "+ partner[None, :], sign",
            },
            told="it scatters: a gather loads from the partner",
            state="RIGHT, but",
        ),
        WrongAnswer(
            mistake="the partner's place, twice",
            instead={"+ column[None, :], sign": "+ partner[None, :], sign"},
            told="it is loaded at the partner, and stored there as well",
        ),
        WrongAnswer(
            mistake="rows half as far apart where they are stored",
            instead={"out_ptr + row[:, None] * 2 * HALF": "out_ptr + row[:, None] * HALF"},
            told="where they are stored, too, and HALF is half of that",
        ),
        WrongAnswer(
            mistake="rows as far apart as there are rows, where they are stored",
            instead={"out_ptr + row[:, None] * 2 * HALF": "out_ptr + row[:, None] * rows"},
            told="where they are stored, too; `rows` is how many there are",
        ),
        WrongAnswer(
            mistake="rows as far apart as a program has rows",
            instead={"row[:, None] * 2 * HALF": "row[:, None] * BLOCK_R"},
            told="BLOCK_R is how many a program has",
        ),
        WrongAnswer(
            mistake="parentheses around the column",
            instead={
                "row[:, None] * 2 * HALF + partner[None, :]": (
                    "row[:, None] * (2 * HALF + partner[None, :])"
                ),
                "row[:, None] * 2 * HALF + column[None, :]": (
                    "row[:, None] * (2 * HALF + column[None, :])"
                ),
            },
            told="row multiplies the column as well",
        ),
        WrongAnswer(
            mistake="the second half for the first",
            instead={"column < HALF\n": "column >= HALF\n"},
            told="the second half is taken for the first",
        ),
        WrongAnswer(
            mistake="columns past HALF for the first half",
            instead={"column < HALF\n": "column > HALF\n"},
            told="columns past HALF are taken for the first half",
        ),
        WrongAnswer(
            mistake="the row for its first half",
            instead={"column < HALF\n": "column < 2 * HALF\n"},
            told="every column is taken for the first half",
        ),
        WrongAnswer(
            mistake="even and odd columns",
            instead={"column < HALF\n": "column % 2 == 0\n"},
            told="halves are taken for even and odd columns",
        ),
        WrongAnswer(
            mistake="a quarter of the row for its first half",
            instead={"column < HALF\n": "column < HALF // 2\n"},
            told="the first half ends at HALF, which is half of a row already",
        ),
        WrongAnswer(
            mistake="quarters for halves",
            instead={
                "column < HALF\n": "column < HALF // 2\n",
                "column + HALF, column - HALF": "column + HALF // 2, column - HALF // 2",
            },
            told="HALF is half of a row already, and is halved again",
        ),
        WrongAnswer(
            mistake="a whole row to the partner",
            instead={"column + HALF, column - HALF": "column + 2 * HALF, column - 2 * HALF"},
            told="all of 2 * HALF is added and taken away",
        ),
        WrongAnswer(
            mistake="half of the block to the partner",
            instead={
                "column + HALF, column - HALF": "column + BLOCK_C // 2, column - BLOCK_C // 2"
            },
            told="half of BLOCK_C is added and taken away",
        ),
        WrongAnswer(
            mistake="the sign added",
            instead={"sign[None, :] * x": "sign[None, :] + x"},
            told="the sign is added, where it is a factor",
        ),
        WrongAnswer(
            mistake="the output loaded",
            instead={"tl.load(x_ptr": "tl.load(out_ptr"},
            told="the kernel loads from out_ptr, which is the result",
        ),
        WrongAnswer(
            mistake="the input stored",
            instead={"tl.store(out_ptr": "tl.store(x_ptr"},
            told="the kernel stores in x_ptr, and the result is its out_ptr",
        ),
    ),
)
