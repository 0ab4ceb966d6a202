"""Drawings of notebook 11: bytes of two kernels and of one, and a pipelined loop."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, SMALL, color_key, finish

_MOVED = {  # what each kernel reads, and last what it writes
    "norm forward": "x n",
    "rope forward": "n y",
    "rope backward": "dy dn",
    "norm backward": "dn x dx",
    "fused forward": "x y",
    "fused backward": "dy x dx",
}


def traffic(units: dict[str, int], title: str) -> None:
    """Units that each kernel moves, as boxes of one unit: two kernels above, the fused one below.

    Args:
        units: of "norm forward", "rope forward", ... and "fused backward", as the notebook counts.
        title: what the figure shows.
    """
    colors = {"forward": BLUE, "backward": ORANGE}
    rows = {
        "two kernels": [name for name in _MOVED if "fused" not in name],
        "fused": [name for name in _MOVED if "fused" in name],
    }
    figure, ax = plt.subplots(figsize=(8.0, 3.3))
    places = 0, 1.3
    for place, names in zip(places, rows.values(), strict=True):
        begin = 0
        for name in names:
            *reads, writes = _MOVED[name].split()
            words = [f"read {tensor}" for tensor in reads] + [f"write {writes}"]
            assert len(words) == units[name]
            for unit, word in enumerate(words, begin):
                _span(ax, place, unit, 1, colors[name.split()[1]], word)
            label = name.split()[0].replace("fused", "norm and rope").replace("rope", "RoPE")
            ax.text(begin + 0.03, place - 0.42, label, va="bottom", fontsize=SMALL + 1)
            begin += units[name]
        ax.text(begin + 0.12, place, f"{begin} units", va="center")
    ax.set_yticks(places, rows)
    ax.set(xlim=(0, 10.2), ylim=(1.8, -0.8), xlabel="units: one is the bytes of q and k, once")
    ax.set_xticks(range(10))
    color_key(figure, colors)
    words = "Two rows of boxes, one for each unit. " + "; ".join(
        f"{row}: " + ", ".join(f"{name} {units[name]}" for name in names)
        for row, names in rows.items()
    )
    finish(figure, title, words + ".")


def pipeline(title: str, tiles: int = 4, load: float = 2.0, compute: float = 1.0) -> None:
    """What a persistent program does over time, with one stage, two and three, as Triton orders it.

    Args:
        title: what the figure shows.
        tiles: of the program.
        load, compute: how long each takes, in any unit.
    """
    figure, axes = plt.subplots(
        3, 1, figsize=(8.0, 5.2), sharex=True, height_ratios=(2, 2, 3), layout="constrained"
    )
    ends = []
    for stages, ax in zip((1, 2, 3), axes, strict=True):
        ahead = max(1, stages - 1)  # loads that are requested before the first tile is computed
        loaded, done = [load] * ahead, 0.0
        for tile in range(tiles):
            _span(ax, tile % ahead, loaded[tile] - load, load, BLUE, f"tile {tile}")
            begin = max(loaded[tile], done)
            done = begin + compute
            _span(ax, ahead, begin, compute, GREEN, f"tile {tile}")
            loaded.append(done + load)  # the next request comes after the store
        ends.append(done)
        names = ["load"] if ahead == 1 else [f"load, buffer {n}" for n in range(ahead)]
        ax.set_yticks(range(ahead + 1), [*names, "compute, store"])
        ax.set(ylim=(ahead + 0.6, -0.6), title=f"num_stages={stages}")
    axes[-1].set(xlim=(0, 1.03 * max(ends)), xticks=[], xlabel="time (the lengths are made up)")
    for ax, end in zip(axes, ends, strict=True):
        ax.axvline(end, color=INK, linestyle=":", linewidth=1.4)
        ax.text(end, -0.66, "end", ha="center", va="bottom", fontsize=SMALL + 1)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    words = f"Three timelines of {tiles} tiles. With one stage and with two, each load begins "
    words += "after the tile before is stored. With three, two loads begin at once, and each later "
    words += "one runs while a tile is computed, so the program ends earlier. The lengths are made "
    words += "up."
    finish(figure, title, words)


def _span(ax: Axes, place: int, begin: float, length: float, color: str, words: str) -> None:
    ax.add_patch(Rectangle((begin + 0.02, place - 0.36), length - 0.04, 0.72, color=color, lw=0))
    text = {"ha": "center", "va": "center", "color": ON_COLOR, "fontsize": SMALL}
    ax.text(begin + length / 2, place, words, **text)
