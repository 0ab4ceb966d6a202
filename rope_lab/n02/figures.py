"""The drawing of notebook 02: the two ways to pair."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Arc

from ..figures import style as draw


def pairings(d2: int) -> None:
    """The pairs of both conventions."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.3))
    _pairing(axes[0], [(i, i + d2 // 2) for i in range(d2 // 2)], "half-split")
    _pairing(axes[1], [(2 * i, 2 * i + 1) for i in range(d2 // 2)], "interleaved")
    draw.finish(figure, "Half-split pairs are d2/2 apart, interleaved pairs are neighbors")


def _pairing(ax: Axes, pairs: list[tuple[int, int]], title: str) -> None:
    """Elements in a row, and an arc for each pair that is rotated together."""
    for (first, second), color in zip(pairs, draw.PROGRAM_COLORS, strict=False):
        width = second - first
        middle = (first + second) / 2, 0.5
        ax.add_patch(Arc(middle, width, 0.55 * width, theta2=180, color=color, linewidth=2))
        for element in (first, second):
            draw.box(ax, element, 0, 0.84, 0.84, color, str(element), fontsize=11)
    count = 2 * len(pairs)
    high = 0.8 + 0.28 * count  # the widest arc that there can be
    draw.bare(ax, (-0.7, count - 0.3), (-0.6, high), title=title, aspect="equal")
