"""Drawings of notebook 06: the two kinds of halves, strides of 0, forward beside backward."""

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from . import style as draw
from .style import BLUE, INK, ORANGE, SMALL


def images_of_circle(cases: dict[str, tuple[float, float]]) -> None:
    """For each title the angles of both halves: where the axes and the unit circle go."""
    figure, axes = plt.subplots(1, len(cases), figsize=(8.0, 4.3))
    turn = np.linspace(0, 2 * np.pi, 200)
    for ax, (title, (one, two)) in zip(axes, cases.items(), strict=True):
        shape = "still a circle" if one == two else "an ellipse"
        matrix = np.array([[math.cos(one), -math.sin(one)], [math.sin(two), math.cos(two)]])
        draw.plane(ax, limit=1.6, title=f"{title}: {shape}")
        ax.plot(*(matrix @ np.stack([np.cos(turn), np.sin(turn)])), color=BLUE)
        for start in np.eye(2):
            draw.vector(ax, start, INK, dashed=True)
            draw.vector(ax, matrix @ start, ORANGE)
    draw.color_key(figure, {"axes before": INK, "axes after": ORANGE, "unit circle after": BLUE})
    words = "Two planes with the images of both axes and of the unit circle. With matching halves "
    words += "the axes stay perpendicular; with mismatched halves they do not."
    title = "Mismatched halves do not rotate: they bend a circle into an ellipse"
    draw.finish(figure, title, words)


def contiguous_or_not(memory: list[float]) -> None:
    """Strides of 0 above, and below what a kernel reads that takes them for contiguous."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(8.0, 4.8))
    _reads(above, memory, [0] * len(memory), "Strides of 0: every element is the first one")
    _reads(below, memory, range(len(memory)), "The kernel reads on, past the gradient's end")
    words = "Two rows of memory. Above, arrows from all elements g[0], g[1], ... of the gradient "
    words += "end at address 0. Below, each ends at an address of its own, and only the first is "
    draw.finish(figure, "", words + "part of the gradient.")


def _reads(ax: Axes, memory: list[float], addresses, title: str) -> None:
    """Which address each element of a gradient is read from; only the first is the gradient's."""
    for address, number in enumerate(memory):
        color = BLUE if address == 0 else ORANGE
        draw.box(ax, address + 0.5, 0.4, 0.92, 0.8, color, f"{number:g}", fontsize=11)
        draw.write(ax, address + 0.5, -0.2, str(address))
    for element, address in enumerate(addresses):
        draw.arrow(ax, (element + 0.5, 1.9), (address + 0.5, 0.82), linewidth=1, shrinkB=2)
        draw.write(ax, element + 0.5, 2.1, f"g[{element}]")
    ax.text(-0.15, 0.4, "memory", ha="right", va="center")
    draw.write(ax, -0.15, -0.2, "address", ha="right")
    draw.bare(ax, (-1.3, len(memory)), (-0.4, 2.3), title=title)


def forward_and_backward(measurement, pairs: dict[str, tuple[str, str]], title: str) -> None:
    """Bars of forward and backward for each name, the copy as a dashed line, the source below."""
    figure, ax = plt.subplots(figsize=(8.0, 2.2 + 0.75 * len(pairs)))
    us = {case: timing.median_us for case, timing in measurement.cases.items()}
    for which, (offset, color) in enumerate(((-0.19, BLUE), (0.19, ORANGE))):
        places = [place + offset for place in range(len(pairs))]
        times = [us[both[which]] for both in pairs.values()]
        ax.bar_label(ax.barh(places, times, height=0.34, color=color), fmt="%.0f", padding=4)
    ax.axvline(us["copy"], color=INK, linestyle="--", linewidth=1.2)
    ax.text(us["copy"], -0.5, f" copy: {us['copy']:.0f}", va="bottom", fontsize=SMALL)
    ax.set_yticks(range(len(pairs)), list(pairs))
    ax.set(xlabel="device time in microseconds (shorter is better)")
    ax.set(xlim=(0, 1.1 * max(us.values())), ylim=(len(pairs) - 0.45, -0.75))
    draw.color_key(figure, {"forward": BLUE, "backward": ORANGE})
    said = draw.spoken({case: us[case] for both in pairs.values() for case in both})
    words = f"Bars of device time: {said}; the copy takes {us['copy']:.0f} \u00b5s."
    draw.finish(figure, title, words, measurement.source)
