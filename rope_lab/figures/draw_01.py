"""Drawings of notebook 01: a turn in the plane, a table of scores, and how fast pairs turn."""

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


def fast_and_slow(theta: Tensor, positions: int) -> None:
    """Cosines of three pairs over the positions, and the wavelengths of all pairs."""
    position, wavelength = torch.arange(0, positions + 1), 2 * math.pi / theta
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), width_ratios=(1.5, 1))
    for pair, color in ((32, draw.BLUE), (40, draw.ORANGE), (50, draw.GREEN)):
        left.plot(position, torch.cos(position * theta[pair]), color=color, label=f"pair {pair}")
    left.set(xlabel="position", ylabel="cos(position · θ)")
    figure.legend(loc="outside lower center", ncols=3)
    right.semilogy(wavelength)
    right.axhline(positions, color=draw.RED, linestyle="--")
    right.text(0, positions * 1.4, f"{positions} positions", color=draw.RED)
    right.set(xlabel="pair i", ylabel="wavelength (positions)")
    slow = int((wavelength > positions).sum())
    words = "Left: pair 50 makes about half a turn. Right: wavelengths pass "
    words += f"{positions} at pair {len(theta) - slow}."
    title = f"{slow} of {len(theta)} pairs do not finish a turn in {positions} positions"
    draw.finish(figure, title, words)
