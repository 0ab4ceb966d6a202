"""The drawing of notebook 12: the time of a step."""

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, GREY, ORANGE

_COLORS = {"PyTorch": BLUE, "rung 7": ORANGE, "package": GREEN, "none": GREY}


def steps(shares: dict[str, dict], title: str, source: str) -> None:
    """Time of a layer's step as bars: a panel for each layer, a group for eager and compiled.

    `shares`: layer -> "eager" and "compiled" -> rotation -> its `step_us`.
    """
    figure, axes = plt.subplots(1, len(shares), figsize=(8.0, 3.8))
    for ax, (layer, ways) in zip(axes, shares.items(), strict=True):
        rows = [(how, name) for how in ("eager", "compiled") for name in ways[how]]
        places = [row + 0.6 * (how == "compiled") for row, (how, _) in enumerate(rows)]
        ms = [ways[how][name]["step_us"] / 1e3 for how, name in rows]
        colors = [_COLORS[name] for _, name in rows]
        draw.numbered_bars(ax, places, ms, colors, "{:#.3g}", 1.2)  # the # keeps the zero of 25.0
        ax.set_yticks(places, [", ".join(row) for row in rows] if ax is axes[0] else [])
        ax.set(xlabel="milliseconds", title=layer)
    draw.finish(figure, title, source)
