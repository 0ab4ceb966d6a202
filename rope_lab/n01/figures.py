"""Drawings of notebook 01: turns in the plane, and a table of scores."""

import math

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from torch import Tensor

from ..figures import style as draw


def scores(table: Tensor) -> None:
    """The scores of all queries and keys: a row for each query, a column for each key."""
    figure, ax = plt.subplots(figsize=(4.6, 3.4))
    image = ax.imshow(table.numpy(), cmap="cividis")
    ax.set(xlabel="n, position of the key", ylabel="m, position of the query")
    figure.colorbar(image, label="rotated q · rotated k")
    draw.finish(figure, "Scores are equal along diagonals")


QUERY, KEY = 70, 20  # degrees at position 0


def two_turns(m: int, n: int, degrees: int) -> None:
    """A query at position m and a key at position n, each turned by its position times degrees."""
    figure, ax = plt.subplots(figsize=(5.4, 3.4), subplot_kw={"projection": "polar"})
    for name, start, position, color in (("q", QUERY, m, draw.BLUE), ("k", KEY, n, draw.ORANGE)):
        for turn, line in ((0, "--"), (position * degrees, "-")):
            angle = math.radians(start + turn)
            ax.plot(
                [angle, angle], [0, 1], line, color=color, marker="o", markevery=[1], clip_on=False
            )
        ax.text(angle, 1.12, name, ha="center", va="center")
    ax.set(ylim=(0, 1), yticks=[], xticks=[])
    lines = {"at position 0": "--", f"q at m = {m}, k at n = {n}": "-"}
    key = [Line2D([], [], color=draw.INK, linestyle=line) for line in lines.values()]
    figure.legend(key, lines, loc="outside right upper")
    # "m - n decides" in the title would answer the prediction that follows
    draw.finish(figure, f"q is turned by {m * degrees}\u00b0, k by {n * degrees}\u00b0")


def score(m: int, n: int, degrees: int) -> str:
    """What `two_turns` shows, in words."""
    product = math.cos(math.radians(QUERY - KEY + (m - n) * degrees))
    return f"m = {m}, n = {n}: rotated q · rotated k = {product:.3f}"
