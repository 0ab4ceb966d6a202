"""Drawings of notebook 12, sections 3 and 4: losses of a training, and what a step takes."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, GREEN, GREY, ORANGE, PURPLE, SMALL

_LINES = ((BLUE, "-", 5.0), (ORANGE, "-", 2.0), (GREEN, "--", 2.0), (PURPLE, ":", 2.0))
_COLORS = {"PyTorch": BLUE, "rung 8": ORANGE, "package": GREEN, "none": GREY}


def losses(curves: dict[str, list[float]], every: int, title: str, source: str = "") -> None:
    """Loss over steps, one line for each training; the first is drawn widest, below the others.

    `curves`: name -> losses, which are `every` steps apart.
    """
    figure, ax = plt.subplots(figsize=(8.0, 3.8))
    for (name, values), (color, line, width) in zip(curves.items(), _LINES, strict=False):
        steps = range(0, every * len(values), every)
        width = width if len(curves) > 1 else 2.0
        ax.plot(steps, values, line, color=color, linewidth=width, label=name)
    ax.set(xlabel="step", ylabel="loss in nats per byte", xlim=(0, None), ylim=(0, None))
    if len(curves) > 1:
        figure.legend(loc="outside lower center", ncols=4)
    ends = "; ".join(f"{name} from {v[0]:.2f} to {v[-1]:.2f}" for name, v in curves.items())
    draw.finish(figure, title, f"The loss over the steps of a training: {ends}.", source)


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
