"""A reader's rung: text in a file of its own, as a cell is."""

from cells import names_in
from rope_lab.rungs import RUNGS

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


def my_rope_of(text, folder):
    """The launcher that this text defines."""
    return names_in(HEADER + text, folder)["my_rope"]


def rung_with(rung, changes, folder):
    """The launcher of our rung with some of its text replaced."""
    source = RUNGS[rung].source
    for text, instead in changes.items():
        assert text in source
        source = source.replace(text, instead)
    return my_rope_of(source, folder)
