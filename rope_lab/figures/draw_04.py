"""Drawings of notebook 04: who reads what after whom, when a tensor is rotated in place."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from . import style as draw
from .style import BLUE, GREEN, GREY, INK, ORANGE, RED, WIDTH

_STEPS = {  # of a warp: how long it takes, and its color
    "load\nown": (1.1, BLUE),
    "load\npartner": (1.5, ORANGE),
    "compute": (1.2, GREY),
    "store": (0.8, GREEN),
}


def show_owners(owners: dict[str, list[int]], d: int) -> None:
    """Elements colored by owner, and an arrow from each element to the partner that loads it.

    Owners take turns in the order of their numbers. An arrow is red and thick where the value that
    it carries has been overwritten by then. Above: to the first halves; below: to the second ones.

    `owners`: title -> the owner of each element, of rows of d elements.
    """
    width = WIDTH / len(owners)
    height = width * (1.9 + 0.24 * d) / (d + 0.4)  # to scale
    figure, axes = plt.subplots(1, len(owners), figsize=(WIDTH, height + 0.8), squeeze=False)
    late = {}
    for ax, (title, owner) in zip(axes[0], owners.items(), strict=True):
        late[title] = _who_reads_whom(ax, owner, d)
        ax.set_title(title)
    names = {"loads the old value: right": INK, "loads too late: already overwritten": RED}
    draw.color_key(figure, names)
    counts = ", ".join(f"{count} ({title})" for title, count in late.items())
    words = f"Rows of {d} elements, colored by the program that owns them, with an arrow from each "
    words += "element to the partner that loads it. Arrows are red where the value has been "
    draw.finish(figure, "", words + f"overwritten: {counts}.")


def _who_reads_whom(ax: Axes, owner: list[int], d: int) -> int:
    """Draw one row; how many elements load a partner that an earlier program has overwritten."""
    too_late = 0
    for i, number in enumerate(owner):
        draw.box(ax, i, 0, 0.9, 1.2, draw.PROGRAM_COLORS[number], f"{i}\nP{number}")
        in_first_half = i % d < d // 2
        source = i + d // 2 if in_first_half else i - d // 2
        late = owner[source] < number
        too_late += late
        side = 0.65 if in_first_half else -0.65
        look = {"color": RED, "linewidth": 2.2} if late else {"color": INK, "linewidth": 1}
        look |= {"connectionstyle": "arc3,rad=0.45", "shrinkA": 2, "shrinkB": 2}
        draw.arrow(ax, (source, side), (i, side), **look)
    high = 0.95 + 0.12 * d
    draw.bare(ax, (-0.7, len(owner) - 0.3), (-high, high), aspect="equal")
    return too_late


def warp_timeline(ax: Axes, starts: tuple[float, float], title: str) -> None:
    """Two warps of one program over time; the second starts when `starts` says."""
    begun = []
    for warp, time in enumerate(starts):
        for step, (length, color) in _STEPS.items():
            draw.box(ax, time + length / 2, 1 - warp, length - 0.04, 0.76, color, step)
            begun.append(time)
            time += length
    stored, loaded = begun[3] + _STEPS["store"][0], begun[5]
    if loaded > stored:
        draw.arrow(ax, (stored, 0.62), (loaded + 0.3, 0.38), RED, linewidth=2.2, mutation_scale=14)
    ax.set(xlim=(-0.1, 11), ylim=(-0.5, 1.5), xticks=[], xlabel="time →", title=title)
    ax.set_yticks([1, 0], ["warp 0", "warp 1"])
    ax.spines["left"].set_visible(False)
    ax.tick_params(left=False)
    words = "Timelines of two warps, each of which loads its own element, loads its partner, "
    words += "computes and stores. An arrow marks a load that comes after the other warp's store."
    draw.describe(ax.figure, words)
