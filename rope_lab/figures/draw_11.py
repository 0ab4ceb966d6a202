"""Drawings of notebook 11: bytes of two kernels and of one, and a pipelined loop."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, SMALL, color_key, finish


def traffic(units: dict[str, int], title: str) -> None:
    """Units that each kernel moves, as boxes of one unit: two kernels above, the fused one below.

    Args:
        units: of "norm forward", "rope forward", ... and "fused backward", as the notebook counts.
        title: what the figure shows.
    """
    rows = {
        "two kernels": ("norm forward", "rope forward", "rope backward", "norm backward"),
        "fused": ("fused forward", "fused backward"),
    }
    colors = {"forward": BLUE, "backward": ORANGE}
    figure, ax = plt.subplots(figsize=(8.0, 2.9))
    for place, names in enumerate(rows.values()):
        begin = 0
        for name in names:
            color = colors[name.split()[1]]
            for unit in range(begin, begin + units[name]):
                ax.add_patch(Rectangle((unit + 0.03, place - 0.3), 0.94, 0.6, color=color, lw=0))
            text = {"ha": "center", "va": "center", "color": ON_COLOR, "fontsize": SMALL}
            words = name.split()[0] if place == 0 else name.split()[1]
            ax.text(begin + units[name] / 2, place, words, **text)
            if begin:
                ax.plot([begin, begin], [place - 0.42, place + 0.42], color=INK, lw=1.2)
            begin += units[name]
        ax.text(begin + 0.12, place, f"{begin} units", va="center")
    ax.set_yticks(range(len(rows)), rows)
    ax.set(xlim=(0, 10.2), ylim=(1.55, -0.55), xlabel="units: one is the bytes of q and k, once")
    ax.set_xticks(range(10))
    color_key(figure, {"forward": BLUE, "backward": ORANGE})
    words = "Two rows of boxes, one for each unit. "
    words += "; ".join(
        f"{row}: " + ", ".join(f"{name} {units[name]}" for name in names)
        for row, names in rows.items()
    )
    finish(figure, title, words + ".")


def pipeline(title: str, tiles: int = 4, load: float = 2.0, compute: float = 1.0) -> None:
    """What a persistent program does over time, with one stage and with two.

    Args:
        title: what the figure shows.
        tiles: of the program.
        load, compute: how long each takes, in any unit.
    """
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 3.9), sharex=True)
    ends = []
    for stages, ax in zip((1, 2), axes, strict=True):
        loaded = done = 0.0
        for tile in range(tiles):
            begin = done if stages == 1 else max(loaded, done - compute if tile > 1 else 0.0)
            if tile == 0:
                begin = 0.0
            loaded = begin + load
            start = max(loaded, done)
            done = start + compute
            _span(ax, 0, begin, load, BLUE, f"tile {tile}")
            _span(ax, 1, start, compute, GREEN, f"tile {tile}")
        ends.append(done)
        ax.set_yticks((0, 1), ("load", "compute, store"))
        ax.set(ylim=(1.6, -0.6), title=f"num_stages={stages}")
    axes[1].set(xlim=(0, 1.03 * max(ends)), xticks=[], xlabel="time")
    for ax, end in zip(axes, ends, strict=True):
        ax.axvline(end, color=INK, linestyle=":", linewidth=1.4)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    words = f"Two timelines of {tiles} tiles. With one stage, each load begins after the tile "
    words += "before is stored. With two, it begins while that tile is computed, and the program "
    words += "ends earlier. The lengths are made up."
    finish(figure, title, words)


def _span(ax: Axes, place: int, begin: float, length: float, color: str, words: str) -> None:
    ax.add_patch(Rectangle((begin + 0.02, place - 0.36), length - 0.04, 0.72, color=color, lw=0))
    text = {"ha": "center", "va": "center", "color": ON_COLOR, "fontsize": SMALL}
    ax.text(begin + length / 2, place, words, **text)
