"""Drawings of notebook 11: bytes of two kernels and of one, and a pipelined loop."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, GREEN, INK, ORANGE, SMALL

_MOVED = {  # by row and kernel: what each reads, and last what it writes
    "two kernels": {
        "norm forward": "x n",
        "rope forward": "n y",
        "rope backward": "dy dn",
        "norm backward": "dn x dx",
    },
    "fused": {"fused forward": "x y", "fused backward": "dy x dx"},
}
_LABELS = {"norm": "norm", "rope": "RoPE", "fused": "norm and RoPE"}


def traffic(units: dict[str, int], title: str) -> None:
    """Units that each kernel moves, as boxes of one unit: two kernels above, the fused one below.

    `units`: kernel and direction, as in `_MOVED` -> how many the notebook counts.
    """
    colors = {"forward": BLUE, "backward": ORANGE}
    figure, ax = plt.subplots(figsize=(8.0, 3.3))
    places = 0, 1.3
    for place, kernels in zip(places, _MOVED.values(), strict=True):
        begin = 0
        for name, tensors in kernels.items():
            kernel, direction = name.split()
            *reads, writes = tensors.split()
            words = [f"read {tensor}" for tensor in reads] + [f"write {writes}"]
            assert len(words) == units[name]
            starts = range(begin, begin + units[name])
            draw.spans(ax, place, starts, 1, colors[direction], words)
            ax.text(begin + 0.03, place - 0.42, _LABELS[kernel], va="bottom", fontsize=SMALL + 1)
            begin += units[name]
        ax.text(begin + 0.12, place, f"{begin} units", va="center")
    ax.set_yticks(places, _MOVED)
    ax.set(xlim=(0, 10.2), ylim=(1.8, -0.8), xlabel="units: one is the bytes of q and k, once")
    ax.set_xticks(range(10))
    draw.color_key(figure, colors)
    rows = "; ".join(
        f"{row}: " + ", ".join(f"{name} {units[name]}" for name in kernels)
        for row, kernels in _MOVED.items()
    )
    draw.finish(figure, title, f"Two rows of boxes, one for each unit. {rows}.")


def pipeline(title: str, tiles: int = 4, load: float = 2.0, compute: float = 1.0) -> None:
    """What a persistent program does over time, with one stage, two and three, as Triton orders it.

    `load` and `compute` are how long each takes, in any unit.
    """
    figure, axes = plt.subplots(3, 1, figsize=(8.0, 5.2), sharex=True, height_ratios=(2, 2, 3))
    longest = 0.0
    for stages, ax in zip((1, 2, 3), axes, strict=True):
        ahead = max(1, stages - 1)  # loads that are requested before the first tile is computed
        loaded, done = [load] * ahead, 0.0
        for tile in range(tiles):
            word = [f"tile {tile}"]
            draw.spans(ax, tile % ahead, [loaded[tile] - load], load, BLUE, word)
            begin = max(loaded[tile], done)
            done = begin + compute
            draw.spans(ax, ahead, [begin], compute, GREEN, word)
            loaded.append(done + load)  # the next request comes after the store
        longest = max(longest, done)
        names = ["load"] if ahead == 1 else [f"load, buffer {n}" for n in range(ahead)]
        ax.set_yticks(range(ahead + 1), [*names, "compute, store"])
        ax.set(ylim=(ahead + 0.6, -0.6), title=f"num_stages={stages}")
        ax.axvline(done, color=INK, linestyle=":", linewidth=1.4)
        draw.write(ax, done, -0.66, "end", va="bottom", fontsize=SMALL + 1)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[-1].set(xlim=(0, 1.03 * longest), xticks=[], xlabel="time (the lengths are made up)")
    words = f"Three timelines of {tiles} tiles. With one stage and with two, each load begins "
    words += "after the tile before is stored. With three, two loads begin at once, and each later "
    words += "one runs while a tile is computed, so the program ends earlier. The lengths are made "
    draw.finish(figure, title, words + "up.")
