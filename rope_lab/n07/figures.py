"""Drawings of notebook 07 and its detour: instructions, layouts, bytes in flight, errors."""

from collections import Counter
from itertools import product
from textwrap import shorten

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ..compiler.stages import Layout, executed, kernel_lines, operations
from ..figures import style as draw
from ..figures.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PROGRAM_COLORS,
    RED,
    SMALL,
    WIDTH,
)


def instructions_by_line(code) -> None:
    """The kernel's lines, and the machine instructions of each: executed, and skipped."""
    all_of = Counter(operation.line for operation in operations(code, "sass"))
    done = Counter(operation.line for operation in executed(code))
    lines = {number: line.strip() for number, line in kernel_lines(code).items()}
    body = [number for number in sorted(all_of) if number > min(lines)]
    names = [shorten(lines[number], 44, placeholder=" ...").ljust(44) for number in body]
    figure, ax = plt.subplots(figsize=(WIDTH, 1.6 + 0.27 * len(body)))
    counts = [(done[number], all_of[number] - done[number]) for number in body]
    _two_parts(ax, names, counts, room=1.3, family="monospace", fontsize=SMALL)
    ax.set(xlabel="machine instructions (SASS)")
    draw.color_key(figure, {"executed": BLUE, "jumped over": ORANGE}, hatched=["jumped over"])
    draw.finish(figure, "A warp jumps over most of the code of sine and cosine")


def _two_parts(ax: Axes, names: list, counts: list[tuple[int, int]], room: float, **text) -> None:
    """Bars of instructions that a warp executes, followed by those that it skips."""
    places, (always, over) = range(len(names)), zip(*counts, strict=True)
    ax.barh(places, always, color=BLUE, height=0.68)
    drawn = ax.barh(places, over, left=always, color=ORANGE, height=0.68, **draw.HATCHED)
    ax.bar_label(drawn, [f"{a} + {o}" if o else str(a) for a, o in counts], padding=4, **text)
    ax.set_yticks(places, names, **text)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, room * max(map(sum, counts)))
    ax.invert_yaxis()


def owners(layouts: dict[int, Layout]) -> None:
    """Which lane of which warp holds each pair of a tile; number of warps -> layout."""
    rows, pairs = 8, 128
    figure, axes = plt.subplots(1, len(layouts), figsize=(WIDTH, 3.6))
    for ax, (count, layout) in zip(axes, layouts.items(), strict=True):
        size = layout.size_per_thread[1]
        columns = pairs // size
        rows_of = {warp: [] for warp in range(count)}
        for row, column in product(range(rows), range(columns)):
            warp, lane = layout.owner(row, column * size)
            rows_of[warp].append(row)
            draw.box(ax, column, row, 0.92, 0.92, PROGRAM_COLORS[warp], str(lane))
        ax.set(xlabel=f"{pairs} pairs, {size} to a cell; the number is the lane", ylabel="row")
        ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=range(rows))
        ax.set_title(f"{count} warp" + "s" * (count > 1))
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        if count > 1:
            beside = ax.secondary_yaxis("right")
            middles = [sum(of_warp) / len(of_warp) for of_warp in rows_of.values()]
            beside.set_yticks(middles, [f"warp {warp}" for warp in rows_of])
            beside.tick_params(length=0)
            beside.spines[:].set_visible(False)
    draw.finish(figure, "Lanes fill rows, and warps are stacked downwards")


def in_flight(shares: dict[int, dict[float, float]], need: float, source: str) -> None:
    """Speed of a copy over what it has in flight on an SM; equation (2) requires `need` KiB.

    `shares`: bytes in flight of a program -> KiB in flight on an SM -> share of PyTorch's copy.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.8))
    marks = zip((BLUE, ORANGE, GREEN), "os^", strict=True)
    for (size, share), (color, mark) in zip(shares.items(), marks, strict=False):
        per_cent = [100 * one for one in share.values()]
        ax.plot(list(share), per_cent, mark, color=color, label=f"{size // 1024} KiB a program")
    kib = np.sort([need, *np.geomspace(1, 128)])
    law = np.minimum(100, 100 * kib / need)
    ax.plot(kib, law, "--", color=INK, label="1400 cycles", zorder=0)
    draw.log_ticks(ax, "x", [1, 2, 4, 8, 16, 32, 64, 128])
    ax.set(xlabel="KiB in flight on an SM", ylabel="% of copy bandwidth", ylim=(0, 108))
    figure.legend(loc="outside lower center", ncols=1 + len(shares))
    draw.finish(figure, "The more bytes in flight, the faster, until memory is busy", source)


def branches(counts: dict[str, tuple[int, int]], title: str) -> None:
    """Machine instructions of each kernel: those a warp executes, and those it skips."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.7 + 0.38 * len(counts)))
    _two_parts(ax, list(counts), list(counts.values()), room=1.15)
    ax.set(xlabel="machine instructions")
    names = {"always executed": BLUE, "slow branch": ORANGE}
    draw.color_key(figure, names, hatched=["slow branch"])
    draw.finish(figure, title)


def errors_of_turns(positions, errors: dict) -> None:
    """Largest error up to each position, in turns, for several ways to the angle."""
    figure, ax = plt.subplots(figsize=(WIDTH, 4.2))
    looks = zip((RED, BLUE, ORANGE, GREEN), ("--", "-", "-.", ":"), strict=True)
    for (name, error), (color, line) in zip(errors.items(), looks, strict=False):
        ax.loglog(positions, error, line, color=color, label=name)
    ax.set(xlabel="position", ylabel="largest error so far, in turns")
    figure.legend(loc="outside lower center", ncols=len(errors))
    draw.finish(figure, "Contracted, the careful kernel is hardly better than the careless one")
