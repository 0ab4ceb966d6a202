"""The drawing of notebook 10: where heads that do not exist would be."""

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, INK, ORANGE


def heads_of_tokens(heads: int, block: int, tokens: int) -> None:
    """Rows in memory order, in the colors of token 0's programs and of token 1's own."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(8.2, 3.2))
    labels = [f"token {t}\nhead {h}" for t in range(tokens) for h in range(heads)]
    own = [BLUE] * block + [ORANGE] * (heads - block) + [GREEN] * heads * (tokens - 1)
    late = own[:block] + [ORANGE] * block + own[2 * block :]
    draw.memory_order(above, labels, own, "Which program each row belongs to")
    draw.memory_order(below, labels, late, "What the mask lets program 1 store")
    names = {"program 0": BLUE, "program 1": ORANGE, "programs of token 1": GREEN}
    draw.color_key(figure, names)
    for ax in (above, below):
        ax.axvline(heads, color=INK, linestyle="--")
    beyond = block - (heads - block)
    draw.finish(figure, f"Program 1 overwrites {beyond} rows of the next token")
