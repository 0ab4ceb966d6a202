"""Drawings of notebook 01: turns in the plane, pairs at their speeds, and a table of scores."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
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
    figure, ax = plt.subplots(figsize=(4.6, 4.2))
    around = [math.radians(turn) for turn in range(361)]
    ax.plot([math.cos(x) for x in around], [math.sin(x) for x in around], color=draw.GREY, lw=1)
    of_both = ("q", QUERY, m, draw.BLUE, 0.72), ("k", KEY, n, draw.ORANGE, 0.5)
    for name, start, position, color, radius in of_both:
        turned = start + position * degrees
        arc = [math.radians(x) for x in range(start, turned + 1)]
        arc_x, arc_y = ([radius * of(x) for x in arc] for of in (math.cos, math.sin))
        ax.plot(arc_x, arc_y, color=color, lw=1)
        for angle, line in (start, "--"), (turned, "-"):
            draw.arrow(ax, (0, 0), _at(angle, 1), color, linestyle=line, linewidth=2)
        draw.write(ax, *_at(turned, 1.12), name, fontsize=11)
    draw.bare(ax, (-1.25, 1.25), (-1.25, 1.25), aspect="equal")
    lines = {"at position 0": "--", f"q at m = {m}, k at n = {n}": "-"}
    key = [Line2D([], [], color=draw.INK, linestyle=line) for line in lines.values()]
    figure.legend(key, lines, loc="outside lower center", ncols=2)
    # "m - n decides" in the title would answer the prediction that follows
    draw.finish(figure, f"q is turned by {m * degrees}\u00b0, k by {n * degrees}\u00b0")


def _at(degrees: float, radius: float) -> tuple[float, float]:
    return tuple(radius * of(math.radians(degrees)) for of in (math.cos, math.sin))


def speeds(frequencies: Tensor, pairs: Sequence[int], positions: int) -> None:
    """A dial for each of the pairs: where it points at positions 0, 1, ..., turned ever further."""
    figure, axes = plt.subplots(1, len(pairs), figsize=(draw.WIDTH, 2.7))
    for ax, pair in zip(axes, pairs, strict=True):
        turn = math.degrees(frequencies[pair])
        ax.add_patch(Circle((0, 0), 1, fill=False, color=draw.GREY))
        for position in range(positions):
            end, last = _at(position * turn, 1), position == positions - 1
            draw.arrow(ax, (0, 0), end, draw.ORANGE if last else draw.BLUE)
        draw.bare(ax, (-1.1, 1.1), (-1.1, 1.1), aspect="equal")
        ax.set_title(f"pair {pair}: {turn:.2g}\u00b0", loc="center")
    names = {f"positions 0 to {positions - 2}": draw.BLUE, f"position {positions - 1}": draw.ORANGE}
    draw.color_key(figure, names)
    draw.finish(figure, "From one position to the next, each pair turns by its own angle")


def score(m: int, n: int, degrees: int) -> str:
    """What `two_turns` shows, in words."""
    product = math.cos(math.radians(QUERY - KEY + (m - n) * degrees))
    return f"m = {m}, n = {n}: rotated q · rotated k = {product:.3f}"
