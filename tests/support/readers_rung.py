"""A reader's rung: text in a file of its own, as a cell is."""

from cells import names_in

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


def my_rope_of(text, folder):
    """The launcher that this text defines."""
    return names_in(HEADER + text, folder)["my_rope"]
