"""Notebook 00: the reader's first kernel."""
# ruff: noqa: F821 (the letters of shapes)

from ..spec import STRIDED, spec


@spec(launches=1, blocks=True, leave_out=STRIDED, kernel=True)
def scaled_copy(x: "(n)"):
    """The reader's first kernel, in notebook 00."""
    return 2 * x
