"""Drawings of notebook 06: a gradient turned back, strides of 0, forward beside backward."""

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from . import style as draw


def turn_by(
    ax: Axes, vector, angle: float, colors: tuple[str, str], names: tuple[str, str]
) -> None:
    """A vector, the same one turned, and the angle between them; the angle in radians."""
    x, y = (float(value) for value in vector)
    c, s = math.cos(angle), math.sin(angle)
    draw.arrow(ax, (x, y), colors[0], names[0])
    draw.arrow(ax, (c * x - s * y, s * x + c * y), colors[1], names[1])
    start = math.atan2(y, x)
    sign = "−" if angle < 0 else "+"
    draw.angle_between(ax, start, start + angle, 0.52, f"{sign}{abs(math.degrees(angle)):.0f}°")


def image_of_circle(ax: Axes, matrix, color: str) -> None:
    """What a 2 x 2 matrix makes of the unit circle."""
    turn = np.linspace(0, 2 * np.pi, 200)
    x, y = np.asarray(matrix) @ np.stack([np.cos(turn), np.sin(turn)])
    ax.plot(x, y, color=color)


def reads(ax: Axes, memory: list[str], addresses: list[int], title: str) -> None:
    """Which address each element of a gradient is read from; the first number is the gradient's."""
    for address, number in enumerate(memory):
        color = draw.BLUE if address == 0 else draw.ORANGE
        ax.add_patch(Rectangle((address + 0.04, 0), 0.92, 0.8, color=color, linewidth=0))
        ax.text(address + 0.5, 0.4, number, color=draw.ON_COLOR, ha="center", va="center")
        ax.text(address + 0.5, -0.3, str(address), color=draw.INK, ha="center", fontsize=8)
    for element, address in enumerate(addresses):
        line = {"arrowstyle": "-|>", "color": draw.INK, "linewidth": 1}
        ax.annotate("", (address + 0.5, 0.82), (element + 0.5, 1.9), arrowprops=line)
        ax.text(element + 0.5, 1.97, f"g[{element}]", ha="center", fontsize=8.5)
    ax.text(-0.15, 0.4, "memory", ha="right", va="center")
    ax.text(-0.15, -0.3, "address", ha="right", fontsize=8)
    ax.set(xlim=(-1.3, len(memory)), ylim=(-0.4, 2.3))
    ax.set_title(title, loc="left")
    ax.axis("off")


def forward_and_backward(measurement, pairs: dict[str, tuple[str, str]], title: str) -> None:
    """Bars of forward and backward for each name, the copy as a dashed line, the source below."""
    figure, ax = plt.subplots(figsize=(7.0, 1.3 + 0.75 * len(pairs)))
    longest = max(timing.median_us for timing in measurement.cases.values())
    for place, cases in enumerate(pairs.values()):
        for case, offset, color in zip(cases, (-0.19, 0.19), (draw.BLUE, draw.ORANGE), strict=True):
            time = measurement[case].median_us
            ax.barh(place + offset, time, height=0.34, color=color)
            ax.text(time + 0.01 * longest, place + offset, f"{time:.0f}", va="center")
    copy = measurement["copy"].median_us
    ax.axvline(copy, color=draw.INK, linestyle="--", linewidth=1.2)
    ax.text(copy, -0.5, f" copy: {copy:.0f}", ha="left", va="bottom", fontsize=9)
    ax.set_yticks(range(len(pairs)), list(pairs))
    ax.set(xlabel="device time in microseconds (shorter is better)", xlim=(0, 1.1 * longest))
    ax.set_ylim(len(pairs) - 0.45, -0.75)
    ax.set_title(title)
    patches = [Rectangle((0, 0), 1, 1, color=color) for color in (draw.BLUE, draw.ORANGE)]
    ax.legend(patches, ["forward", "backward"], loc="lower right")
    draw.cite(figure, measurement.source)
    plt.show()
