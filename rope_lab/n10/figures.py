"""The drawing of notebook 10: where heads that do not exist would be."""

import math

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, INK, ORANGE


def heads_of_tokens(heads: int, block: int, tokens: int) -> None:
    """Rows in memory order, with their programs' numbers; token 1's programs share a color."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(8.2, 3.6))
    rows = [(token, head) for token in range(tokens) for head in range(heads)]
    programs_of_a_token = math.ceil(heads / block)
    own = [token * programs_of_a_token + head // block for token, head in rows]
    late = own[:block] + [1] * block + own[2 * block :]
    titles = "Which program each row belongs to", "What the mask lets program 1 store"
    for ax, title, programs in zip((above, below), titles, (own, late), strict=True):
        numbered = zip(rows, programs, strict=True)
        labels = [f"token {t}\nhead {h}\nprogram {program}" for (t, h), program in numbered]
        colors = [(BLUE, ORANGE, GREEN)[min(program, 2)] for program in programs]
        draw.memory_order(ax, labels, colors, title)
    names = {"program 0": BLUE, "program 1": ORANGE, "programs of token 1": GREEN}
    draw.color_key(figure, names)
    for ax in (above, below):
        ax.axvline(heads, color=INK, linestyle="--")
    beyond = block - (heads - block)
    draw.finish(figure, f"Program 1 overwrites {beyond} rows of the next token")
