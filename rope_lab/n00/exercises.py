"""Notebook 00: the reader's first kernel."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.spec import STRIDED, spec


def _squares(x):
    return x * x


def _two_more(x):
    return x + 2


def _without_fractions(x):
    return (2 * x).trunc()


@spec(
    launches=1,
    blocks=True,
    leave_out=STRIDED,
    kernel=True,
    mistakes={
        "each element is multiplied by itself, where 2 is the factor": _squares,
        "2 is added, where it is the factor": _two_more,
        "the fractions are gone: is it converted to an integer?": _without_fractions,
    },
)
def scaled_copy(x: "(n)"):
    """The reader's first kernel, in notebook 00."""
    return 2 * x


# exercise 2: the largest n for which a kernel without `* BLOCK` is right, in blocks of 256
FORGOTTEN_BLOCK = {
    "the last index of one block; indices begin at 0": 255,
    "one block, for which one program is enough; what does a second program add?": 256,
    "one too many; the elements of a block are counted from 0": 258,
    "two blocks side by side; these two overlap": 512,
    "the last index of two blocks side by side; these two overlap": 511,
    "one program for each element; each has a whole block": 1,
}
