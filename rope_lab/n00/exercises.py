"""Notebook 00: the reader's first kernel."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.spec import OTHER_BLOCK, STRIDED, Case, spec


@spec(
    launches=1,
    blocks=True,
    leave_out=STRIDED,
    extra=(Case(OTHER_BLOCK, {"s": 1, "d": 2, "n": 3001}, options={"block": 512}),),
    kernel=True,
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
