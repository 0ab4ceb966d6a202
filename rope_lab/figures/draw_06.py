"""The drawing of notebook 06: the two kinds of halves."""

import math

import matplotlib.pyplot as plt
import numpy as np

from . import style as draw
from .style import BLUE, INK, ORANGE


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
