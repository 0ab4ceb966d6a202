"""Notebook 03: bytes of three loads, and the reader's first gather."""

from ..judge.definitions import rotate_half
from ..judge.mistakes import Mistake, Solution
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

_SECTOR = 32  # the fewest bytes that memory sends
_THREADS = range(32)
_LOADS = (0, 4, 4), (0, 16, 2), (1, 1, 4)  # first element, elements between threads, bytes of one


def _sent(first: int, step: int, size: int) -> int:
    return _SECTOR * len({(first + step * thread) * size // _SECTOR for thread in _THREADS})


BYTES_OF_THREE_LOADS = {
    "right": [_sent(*load) for load in _LOADS],
    "unit": "bytes",
    "hint": "whole sectors, wherever the load begins",
    "mistakes": _SENT_BYTES,
}


ROTATE_HALF = Solution("03-ex3")

_ROW = "row[:, None] * 2 * HALF"
_LOAD, _STORE = f"{_ROW} + partner[None, :]", f"{_ROW} + column[None, :]"


def _of_rows(words: str, row: str) -> list[Mistake]:
    """`row` instead of `_ROW`: in both addresses, only in the load's, or only in the store's."""
    load, store = ({address: address.replace(_ROW, row)} for address in (_LOAD, _STORE))
    return [
        Mistake(words, load | store),
        Mistake(f"{words} (in the load)", load),
        Mistake(f"{words} (in the store)", store),
    ]


# Wrong conditions for the first half, which is `column < HALF`, and the verdict's words.
_FIRST_HALVES = {
    "column HALF is the first of the second half: <, not <=": "column <= HALF",
    "the second half is taken for the first: is it < in the comparison?": "column >= HALF",
    "columns past HALF are taken for the first half: is it < in the comparison?": "column > HALF",
    "every column is taken for the first half, which ends at HALF": "column < 2 * HALF",
    "halves are taken for even and odd columns": "column % 2 == 0",
    "the first half ends at HALF, which is half of a row already": "column < HALF // 2",
    "the first half ends at HALF, not at half of BLOCK_C": "column < BLOCK_C // 2",
}
# How far the partner is taken to be, HALF.
_STEPS = {
    "2 * HALF is added and subtracted, but partners are HALF apart": "2 * HALF",
    "half of BLOCK_C is added and subtracted, but partners are HALF apart": "BLOCK_C // 2",
    "one element too few between partners": "(HALF - 1)",
    "one element too many between partners": "(HALF + 1)",
}


# The kernel takes a contiguous tensor for a list of rows.
rotate_half_of_rows = spec(
    rotate_half.function,
    kernel=True,
    launches=1,
    gathers=True,
    leave_out=STRIDED,
    extra=(Case(OTHER_BLOCK, {"s": 5, "b": 2, "h": 3, "d": 24}, options={"block_r": 8}),),
    unmasked="every result is right, so only the mask is wrong: it needs the rows and the columns, "
    "(row[:, None] < rows) & (column[None, :] < 2 * HALF)",
    mistakes=ROTATE_HALF.with_mistakes(
        *_of_rows(
            "rows are 2 * HALF apart in memory, and BLOCK_C is the width of the block",
            "row[:, None] * BLOCK_C",
        ),
        *_of_rows("rows are 2 * HALF apart in memory: row needs this factor", "row[:, None]"),
        *_of_rows(
            "rows are 2 * HALF apart in memory, and HALF is half of that", "row[:, None] * HALF"
        ),
        *_of_rows(
            "rows are 2 * HALF apart in memory, and `rows` says how many there are",
            "row[:, None] * rows",
        ),
        *_of_rows(
            "row counts the rows of all programs already: don't add program_id again",
            "(tl.program_id(0) * BLOCK_R + row[:, None]) * 2 * HALF",
        ),
        Mistake(
            "rows are 2 * HALF apart in memory, and BLOCK_R is how many a program has",
            {_ROW: "row[:, None] * BLOCK_R"},
        ),
        Mistake(
            "row and column are swapped: neighbors in a row are neighbors in memory",
            {
                _LOAD: "row[:, None] + rows * partner[None, :]",
                _STORE: "row[:, None] + rows * column[None, :]",
            },
        ),
        Mistake(
            "row and column are swapped: a column's neighbors are next to each other",
            {_LOAD: "row[:, None] + rows * partner[None, :]"},
        ),
        Mistake(
            "row multiplies the column as well: row * 2 * HALF + column, without parentheses",
            {
                _LOAD: "row[:, None] * (2 * HALF + partner[None, :])",
                _STORE: "row[:, None] * (2 * HALF + column[None, :])",
            },
        ),
        Mistake(
            "row and column are multiplied: an address adds row * 2 * HALF and the column",
            {_LOAD: "row[:, None] * partner[None, :]"},
        ),
        Mistake(
            "every row takes the elements of the first one: the load's address has no row",
            {_LOAD: "partner[None, :]"},
        ),
        Mistake(
            "it is loaded at the partner, and stored there as well: store at the column",
            {"column[None, :],": "partner[None, :],"},
        ),
        Mistake(
            "the element itself is loaded: load its partner",
            {"partner[None, :]": "column[None, :]"},
        ),
        Mistake(
            "both halves add HALF: the second one has to subtract it",
            partner="column + HALF",
        ),
        Mistake(
            "the first half subtracts HALF and the second one adds it: do the opposite",
            partner="tl.where(in_first_half, column - HALF, column + HALF)",
        ),
        Mistake(
            "the partner of the second half is column - HALF, not HALF - column",
            partner="tl.where(in_first_half, column + HALF, HALF - column)",
        ),
        Mistake(
            "HALF is half of a row already, and is halved again",
            in_first_half="column < HALF // 2",
            partner="tl.where(in_first_half, column + HALF // 2, column - HALF // 2)",
        ),
        Mistake("the sign is added: multiply by it", {"sign[None, :] *": "sign[None, :] +"}),
        Mistake(
            "half of BLOCK_C instead of HALF: a block may be wider than a row",
            in_first_half="column < BLOCK_C // 2",
            partner="tl.where(in_first_half, column + BLOCK_C // 2, column - BLOCK_C // 2)",
        ),
        Mistake(
            "the partner by % BLOCK_C: a block may be wider than a row, which has 2 * HALF",
            partner="(column + HALF) % BLOCK_C",
        ),
        Mistake(
            "the row from its end: the first with the last, where HALF is between partners",
            partner="2 * HALF - 1 - column",
        ),
        Mistake(
            "the partner is the neighbor, where HALF is between partners", partner="column ^ 1"
        ),
        Mistake(
            "HALF is the way to the partner, and its place is column + HALF or column - HALF",
            partner="tl.where(in_first_half, HALF, -HALF)",
        ),
        Mistake(
            "% 2 * HALF takes a remainder by 2, and then multiplies: parentheses, % (2 * HALF)",
            partner="(column + HALF) % 2 * HALF",
        ),
        Mistake(
            "both halves look HALF back, and the first one has to look ahead",
            partner="column - HALF",
        ),
        Mistake(
            "the sign is true or false, which is 1 or 0, and should be -1 or 1",
            sign="in_first_half",
        ),
        *(Mistake(words, in_first_half=condition) for words, condition in _FIRST_HALVES.items()),
        *(
            Mistake(words, partner=f"tl.where(in_first_half, column + {step}, column - {step})")
            for words, step in _STEPS.items()
        ),
    ),
)
