"""Drawings of notebook 06: the two kinds of halves, strides of 0, forward beside backward."""

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from . import style as draw


def images_of_circle(cases: dict[str, tuple[float, float]]) -> None:
    """For each title the angles of both halves: where the axes and the unit circle go."""
    figure, axes = plt.subplots(1, len(cases), figsize=(8.0, 4.3))
    turn = np.linspace(0, 2 * np.pi, 200)
    for ax, (title, (first, second)) in zip(axes, cases.items(), strict=True):
        shape = "still a circle" if first == second else "an ellipse"
        matrix = np.array(
            [[math.cos(first), -math.sin(first)], [math.sin(second), math.cos(second)]]
        )
        draw.plane(ax, limit=1.6, title=f"{title}: {shape}")
        ax.plot(*(matrix @ np.stack([np.cos(turn), np.sin(turn)])), color=draw.BLUE)
        for start in np.eye(2):
            draw.arrow(ax, start, draw.INK, dashed=True)
            draw.arrow(ax, matrix @ start, draw.ORANGE)
    names = {"axes before": draw.INK, "axes after": draw.ORANGE, "unit circle after": draw.BLUE}
    draw.color_key(figure, names)
    draw.finish(
        figure,
        "Mismatched halves do not rotate: they bend a circle into an ellipse",
        "Two planes with the images of both axes and of the unit circle. With matching halves "
        "the axes stay perpendicular; with mismatched halves they do not.",
    )


def contiguous_or_not(memory: list[float]) -> None:
    """Strides of 0 above, and below what a kernel reads that takes them for contiguous."""
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 4.8))
    numbers = [f"{number:g}" for number in memory]
    _reads(axes[0], numbers, [0] * len(numbers), "Strides of 0: every element is the first one")
    _reads(
        axes[1], numbers, list(range(len(numbers))), "The kernel reads on, past the gradient's end"
    )
    draw.finish(
        figure,
        "",
        "Two rows of memory. Above, arrows from all elements g[0], g[1], ... of the gradient end "
        "at address 0. Below, each ends at an address of its own, and only the first is part of "
        "the gradient.",
    )


def _reads(ax: Axes, memory: list[str], addresses: list[int], title: str) -> None:
    """Which address each element of a gradient is read from; only the first is the gradient's."""
    for address, number in enumerate(memory):
        color = draw.BLUE if address == 0 else draw.ORANGE
        ax.add_patch(Rectangle((address + 0.04, 0), 0.92, 0.8, color=color, linewidth=0))
        ax.text(address + 0.5, 0.4, number, color=draw.ON_COLOR, ha="center", va="center")
        ax.text(address + 0.5, -0.3, str(address), color=draw.INK, ha="center", fontsize=draw.SMALL)
    for element, address in enumerate(addresses):
        line = {"arrowstyle": "-|>", "color": draw.INK, "linewidth": 1}
        ax.annotate("", (address + 0.5, 0.82), (element + 0.5, 1.9), arrowprops=line)
        ax.text(element + 0.5, 1.97, f"g[{element}]", ha="center", fontsize=draw.SMALL)
    ax.text(-0.15, 0.4, "memory", ha="right", va="center")
    ax.text(-0.15, -0.3, "address", ha="right", fontsize=draw.SMALL)
    ax.set(xlim=(-1.3, len(memory)), ylim=(-0.4, 2.3))
    ax.set_title(title, loc="left")
    ax.axis("off")


def forward_and_backward(measurement, pairs: dict[str, tuple[str, str]], title: str) -> None:
    """Bars of forward and backward for each name, the copy as a dashed line, the source below."""
    figure, ax = plt.subplots(figsize=(8.0, 2.2 + 0.75 * len(pairs)))
    longest = max(timing.median_us for timing in measurement.cases.values())
    for place, cases in enumerate(pairs.values()):
        for case, offset, color in zip(cases, (-0.19, 0.19), (draw.BLUE, draw.ORANGE), strict=True):
            time = measurement[case].median_us
            ax.barh(place + offset, time, height=0.34, color=color)
            ax.text(time + 0.01 * longest, place + offset, f"{time:.0f}", va="center")
    copy = measurement["copy"].median_us
    ax.axvline(copy, color=draw.INK, linestyle="--", linewidth=1.2)
    ax.annotate(
        f"copy: {copy:.0f}", (copy, -0.5), xytext=(5, 0), textcoords="offset points", va="bottom",
        fontsize=draw.SMALL,
    )  # fmt: skip
    ax.set_yticks(range(len(pairs)), list(pairs))
    ax.set(xlabel="device time in microseconds (shorter is better)", xlim=(0, 1.1 * longest))
    ax.set_ylim(len(pairs) - 0.45, -0.75)
    draw.color_key(figure, {"forward": draw.BLUE, "backward": draw.ORANGE})
    times = {case: measurement[case].median_us for both in pairs.values() for case in both}
    words = f"Bars of device time: {draw.spoken(times)}; the copy takes {copy:.0f} \u00b5s."
    draw.finish(figure, title, words, measurement.source)
