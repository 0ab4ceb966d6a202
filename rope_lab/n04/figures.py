"""Drawings of notebook 04: who reads what after whom, when a tensor is rotated in place."""

from collections.abc import Callable

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ON_COLOR,
    ORANGE,
    PROGRAM_COLORS,
    RED,
    SMALL,
    WIDTH,
)

_STEPS = {  # of a warp: how long it takes, and its color
    "load\nown": (1.1, BLUE),
    "load\npartner": (1.5, ORANGE),
    "compute": (1.2, GREY),
    "store": (0.8, GREEN),
}


def show_owners(owners: dict[str, list[int]], d: int) -> None:
    """A row of d elements colored by owner, and an arrow from each to the partner that loads it.

    Owners take turns in the order of their numbers. An arrow is red and thick where the value that
    it carries has been overwritten by then. Above: to the first half; below: to the second one.

    `owners`: title -> the owner of each element.
    """
    figure, axes = plt.subplots(1, len(owners), figsize=(WIDTH, 2.71))
    for ax, (title, owner) in zip(axes, owners.items(), strict=True):
        for i, number in enumerate(owner):
            draw.box(ax, i, 0, 0.9, 1.2, PROGRAM_COLORS[number], f"{i}\nP{number}")
            source, side = (i + d // 2, 0.65) if i < d // 2 else (i - d // 2, -0.65)
            late = owner[source] < number
            look = {"color": RED, "linewidth": 2.2} if late else {"color": INK, "linewidth": 1}
            look |= {"connectionstyle": "arc3,rad=0.45", "shrinkA": 2, "shrinkB": 2}
            draw.arrow(ax, (source, side), (i, side), **look)
        draw.bare(ax, (-0.7, d - 0.3), (-1.91, 1.91), aspect="equal", title=title)
    names = {"loads the old value: right": INK, "loads too late (thick): already overwritten": RED}
    draw.color_key(figure, names)
    draw.finish(figure, "")


def warps_of_a_row(cases: dict[str, tuple[int, int]], warp_of: Callable) -> None:
    """A row of 256 elements in pieces of 32, each with the warp that owns it.

    `cases`: title -> number of warps, bytes of an element. `warp_of(element, block, num_warps,
    element_bytes)` owns an element of a block of 1024.
    """
    figure, axes = plt.subplots(len(cases), 1, figsize=(WIDTH, 1.2 * len(cases)))
    for ax, (title, case) in zip(axes, cases.items(), strict=True):
        owners = [warp_of(first, 1024, *case) for first in range(0, 256, 32)]
        labels = [f"{32 * n} to {32 * n + 31}\nwarp {owner}" for n, owner in enumerate(owners)]
        draw.memory_order(ax, labels, [PROGRAM_COLORS[owner % 4] for owner in owners], title)
    draw.finish(figure, "")


def warp_timelines(cases: dict[str, tuple[float, float]]) -> None:
    """Two warps of one program over time. `cases`: title -> when each of them starts."""
    figure, axes = plt.subplots(len(cases), 1, figsize=(7.4, 1.95 * len(cases)))
    lengths, colors = zip(*_STEPS.values(), strict=True)
    begins = [sum(lengths[:step]) for step in range(len(lengths))]
    for ax, (title, starts) in zip(axes, cases.items(), strict=True):
        for warp, start in enumerate(starts):
            left = [start + begin for begin in begins]
            bars = ax.barh([1 - warp] * len(_STEPS), lengths, 0.72, left, color=colors)
            ax.bar_label(bars, _STEPS, label_type="center", color=ON_COLOR, fontsize=SMALL)
        stored, loaded = starts[0] + sum(lengths), starts[1] + begins[1]
        if loaded > stored:
            look = {"linewidth": 2.2, "mutation_scale": 14}
            draw.arrow(ax, (stored, 0.62), (loaded + 0.3, 0.38), RED, **look)
        ax.set(xlim=(-0.1, 11), ylim=(-0.5, 1.5), xticks=[], xlabel="time →", title=title)
        ax.set_yticks([1, 0], ["warp 0", "warp 1"])
    draw.finish(figure, "")
