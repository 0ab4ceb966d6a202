"""The drawing of notebook 12: the time of a step."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, GREEN, GREY, ORANGE, SMALL

_COLORS = {"PyTorch": BLUE, "rung 7": ORANGE, "package": GREEN, "none": GREY}


def steps(shares: dict[str, dict], title: str, source: str) -> None:
    """Time of a layer's step as bars: a panel for each layer, a group for eager and compiled.

    `shares`: layer -> "eager" and "compiled" -> rotation -> its `step_us`.
    """
    figure, axes = plt.subplots(1, len(shares), figsize=(8.0, 3.8))
    said = []
    for ax, (layer, ways) in zip(axes, shares.items(), strict=True):
        rows = [(how, name) for how in ("eager", "compiled") for name in ways[how]]
        places = [row + 0.6 * (how == "compiled") for row, (how, _) in enumerate(rows)]
        ms = [ways[how][name]["step_us"] / 1e3 for how, name in rows]
        labels = [f"{value:.3g}" for value in ms]
        colors = [_COLORS[name] for _, name in rows]
        draw.numbered_bars(ax, places, ms, colors, labels, room=1.17, fontsize=SMALL)
        names = [f"{how}, {name}" for how, name in rows]
        ax.set_yticks(places, names if ax is axes[0] else [])
        ax.set(xlabel="milliseconds", title=layer)
        words = (f"{name} {value}" for name, value in zip(names, labels, strict=True))
        said.append(f"{layer}, in milliseconds: " + "; ".join(words))
    draw.finish(figure, title, "Bars of the time of a step. " + ". ".join(said) + ".", source)
