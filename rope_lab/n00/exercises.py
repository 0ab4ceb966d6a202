"""Notebook 00: the reader's first kernel."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.mistakes import Mistake, Solution
from ..judge.spec import OTHER_BLOCK, STRIDED, Case, spec

SCALED_COPY = Solution("00-ex1")


@spec(
    launches=1,
    blocks=True,
    leave_out=STRIDED,
    extra=(Case(OTHER_BLOCK, {"s": 1, "d": 2, "n": 3001}, options={"block": 512}),),
    kernel=True,
    unmasked="every result is right, so a mask is missing, or true for lanes past the end",
    mistakes=SCALED_COPY.with_mistakes(
        Mistake("the address is doubled: double the value", {"+ i, 2 * x,": "+ 2 * i, x,"}),
        Mistake("each element is multiplied by itself: multiply it by 2", {"2 * x,": "x * x,"}),
        Mistake("2 is added: multiply by 2", {"2 * x,": "x + 2,"}),
        Mistake(
            "the fractions are gone: is it converted to an integer?",
            {"2 * x,": "(2 * x).to(tl.int32),"},
        ),
        Mistake(
            "the load's address is doubled: load at x_ptr + i, and double the value",
            x="tl.load(x_ptr + 2 * i, mask=exists)",
        ),
        Mistake(
            "the addresses of load and store are doubled: use i for both",
            {" + i, ": " + 2 * i, "},
        ),
        Mistake(
            "the address is multiplied by 4: pointers count elements, not bytes",
            x="tl.load(x_ptr + 4 * i, mask=exists)",
        ),
        Mistake(
            "each lane takes the first element: add i to the address, x_ptr + i", x="tl.load(x_ptr)"
        ),
        Mistake("i is doubled, the index of an element: double its value", {"2 * x,": "2 * i,"}),
        Mistake(
            "every lane that isn't masked off is past the end: is the comparison reversed?",
            exists="n < i",
        ),
    ),
)
def scaled_copy(x: "(n)"):
    """The reader's first kernel, in notebook 00."""
    return 2 * x


# the largest n for which a kernel without `* BLOCK` is right, in blocks of 256
FORGOTTEN_BLOCK = {
    "the last index of one block; indices begin at 0": 255,
    "one block, for which one program is enough; what does a second program add?": 256,
    "one too many; the elements of a block are counted from 0": 258,
    "two blocks side by side; these two overlap": 512,
    "the last index of two blocks side by side; these two overlap": 511,
    "one program for each element; each has a whole block": 1,
}
