"""Drawings of notebook 01: a turn in the plane, a table of scores, and how fast pairs turn."""

import math

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from .style import (
    BLUE,
    DIVERGING,
    GREEN,
    ORANGE,
    RED,
    angle_between,
    arrow,
    finish,
    plane,
)


def a_turn(before: Tensor, after: Tensor, degrees: float) -> None:
    """A vector before and after a rotation, and the angle between."""
    figure, ax = plt.subplots(figsize=(3.6, 3.4))
    plane(ax)
    arrow(ax, before, BLUE, "v")
    arrow(ax, after, ORANGE, "R v")
    start, end = (math.atan2(v[1], v[0]) for v in (before, after))
    angle_between(ax, start, start + math.radians(degrees), 0.5, f"{degrees}°")
    words = f"v is at {math.degrees(start):.0f}°, R v at {math.degrees(end):.0f}°."
    finish(
        figure, f"R({degrees}°) turns v, and keeps its length", f"Two arrows of one length: {words}"
    )


def scores(table: Tensor) -> None:
    """The scores of all queries and keys: a row for each query, a column for each key."""
    figure, ax = plt.subplots(figsize=(4.6, 3.4))
    image = ax.imshow(table.numpy(), cmap=DIVERGING)
    ax.set(xlabel="n, position of the key", ylabel="m, position of the query")
    figure.colorbar(image, label="rotated q · rotated k")
    finish(figure, "Scores are equal along diagonals", "Stripes from top left to bottom right.")


def fast_and_slow(theta: Tensor, positions: int) -> None:
    """Cosines of three pairs over the positions, and the wavelengths of all pairs."""
    position, wavelength = torch.arange(0, positions + 1), 2 * math.pi / theta
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), width_ratios=(1.5, 1))
    for pair, color in ((32, BLUE), (40, ORANGE), (50, GREEN)):
        left.plot(position, torch.cos(position * theta[pair]), color=color, label=f"pair {pair}")
    left.set(xlabel="position", ylabel="cos(position · θ)")
    left.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, -0.2))
    right.semilogy(wavelength)
    right.axhline(positions, color=RED, linestyle="--")
    right.text(0, positions * 1.4, f"{positions} positions", color=RED)
    right.set(xlabel="pair i", ylabel="wavelength (positions)")
    slow = int((wavelength > positions).sum())
    finish(
        figure,
        f"{slow} of {len(theta)} pairs do not finish a turn in {positions} positions",
        "Left: pair 50 makes about half a turn. Right: wavelengths pass "
        f"{positions} at pair {len(theta) - slow}.",
    )
