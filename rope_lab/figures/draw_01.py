"""Drawings of notebook 01: turns in the plane, and a table of scores."""

import math

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from . import style as draw


def a_turn(before: Tensor, after: Tensor, degrees: float) -> None:
    """A vector before and after a rotation, and the angle between."""
    figure, ax = plt.subplots(figsize=(3.6, 3.4))
    draw.plane(ax)
    draw.vector(ax, before, draw.BLUE, "v")
    draw.vector(ax, after, draw.ORANGE, "R v")
    start, end = (math.atan2(v[1], v[0]) for v in (before, after))
    turn = torch.linspace(start, start + math.radians(degrees), 61)
    x, y = torch.cos(turn), torch.sin(turn)
    ax.plot(0.5 * x, 0.5 * y, color=draw.INK, linewidth=1.2)
    draw.write(ax, 0.65 * x[30], 0.65 * y[30], f"{degrees}°", fontsize=11)
    words = f"v is at {math.degrees(start):.0f}°, R v at {math.degrees(end):.0f}°."
    title = f"R({degrees}°) turns v, and keeps its length"
    draw.finish(figure, title, f"Two arrows of one length: {words}")


def scores(table: Tensor) -> None:
    """The scores of all queries and keys: a row for each query, a column for each key."""
    figure, ax = plt.subplots(figsize=(4.6, 3.4))
    image = ax.imshow(table.numpy(), cmap=draw.DIVERGING)
    ax.set(xlabel="n, position of the key", ylabel="m, position of the query")
    figure.colorbar(image, label="rotated q · rotated k")
    words = "Stripes from top left to bottom right."
    draw.finish(figure, "Scores are equal along diagonals", words)


def two_turns(m: int, n: int, degrees: int) -> None:
    """A query at position m and a key at position n, each turned by its position times degrees."""
    figure, ax = plt.subplots(figsize=(3.6, 3.4))
    draw.plane(ax)
    for name, start, position, color in (("q", 70, m, draw.BLUE), ("k", 20, n, draw.ORANGE)):
        for turn, dashed in ((0, True), (position * degrees, False)):
            angle = math.radians(start + turn)
            draw.vector(
                ax, (math.cos(angle), math.sin(angle)), color, "" if dashed else name, dashed
            )
    words = f"The query turns from 70° by {m * degrees}°, the key from 20° by {n * degrees}°."
    draw.finish(figure, f"m \u2212 n = {m - n} decides the score", words)
