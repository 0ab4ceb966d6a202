"""The drawing of notebook 06: the two kinds of halves."""

import matplotlib.pyplot as plt
import numpy as np

from ..figures import style as draw
from ..figures.style import BLUE, INK, ORANGE


def images_of_circle(maps: dict) -> None:
    """For each title a matrix (2, 2): where the axes and the unit circle go."""
    figure, axes = plt.subplots(1, len(maps), figsize=(8.0, 4.3), sharey=True)
    turn = np.linspace(0, 2 * np.pi, 200)
    for ax, (title, matrix) in zip(axes, maps.items(), strict=True):
        matrix = np.asarray(matrix)
        rotates = np.allclose(matrix @ matrix.T, np.eye(2), atol=1e-6)
        ax.plot(*(matrix @ np.stack([np.cos(turn), np.sin(turn)])), color=BLUE)
        for start in np.eye(2):
            draw.arrow(ax, (0, 0), start, INK, linestyle="--")
            draw.arrow(ax, (0, 0), matrix @ start, ORANGE, linewidth=2)
        ax.set(xlabel="first element", ylabel="second element", aspect="equal")
        ax.set_title(f"{title}: {'still a circle' if rotates else 'an ellipse'}")
    draw.color_key(figure, {"axes before": INK, "axes after": ORANGE, "unit circle after": BLUE})
    draw.finish(figure, "Mismatched halves do not rotate: they bend a circle into an ellipse")
