"""Drawings of notebook 03: who loads what, and the speed over BLOCK."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from . import style as draw
from .style import BLUE, GREEN, INK, ORANGE, PALE, PROGRAM_COLORS, WIDTH


def who_loads_what(stride: int) -> None:
    """What a program, its first warp and that warp's lane 0 load from memory.

    Elements have 4 bytes and are `stride` apart. A program has 512 of them and four warps. A lane
    loads four neighbors if they are neighbors in memory, too.
    """
    columns, rows, block = 256, 4, 512  # of the picture: 1 KiB in a row
    memory = np.zeros(rows * columns, dtype=int)
    elements = np.arange(rows * columns // stride)
    lane = elements % block // (4 if stride == 1 else 1)
    shades = 1 + (elements < block) + (lane < 32) * (elements < block)
    shades += (lane == 0) & (elements < block)
    memory[elements * stride] = shades
    names = {
        "no element": "none",
        "other programs": PALE,
        "the program": "#a9cdec",
        "its first warp": BLUE,
        "lane 0": ORANGE,
    }
    figure, ax = plt.subplots(figsize=(WIDTH, 2.6))
    look = {"vmin": 0, "vmax": 4, "aspect": "auto", "interpolation": "none"}
    ax.imshow(memory.reshape(rows, columns), cmap=ListedColormap(list(names.values())), **look)
    ax.set(xlabel="place within a row of 1 KiB, in elements", ylabel="row of memory")
    ax.set_yticks(range(rows))
    edge = {"edgecolor": INK, "linewidth": 0.8}
    patches = [Rectangle((0, 0), 1, 1, facecolor=color, **edge) for color in names.values()]
    figure.legend(patches, names, loc="outside lower center", ncols=5, handlelength=1.2)
    title = f"With stride {stride}, a warp uses one in {stride} of the bytes that memory sends"
    words = f"{rows} rows of {columns} places, of which every {stride}th has an element."
    draw.finish(figure, title, words)


def warps_and_lanes(warps: int, per_lane: int, element_bytes: int = 4) -> None:
    """One program: a row for each warp, a box for each lane, and the cache lines that it loads."""
    lanes, line = 32, 128 // (per_lane * element_bytes)  # lanes that share a cache line
    figure, ax = plt.subplots(figsize=(WIDTH, 2.8))
    for warp in range(warps):
        y = -0.5 - 2.6 * warp
        ax.text(-0.4, y, f"warp {warp}", ha="right", va="center")
        for lane in range(lanes):
            draw.box(ax, lane + 0.5, y, 0.9, 1, PROGRAM_COLORS[warp], str(lane))
        for start in range(0, lanes, line):
            first = (warp * lanes + start) * per_lane
            ax.plot([start + 0.1, start + line - 0.1], [y - 0.7] * 2, color=INK, linewidth=1.2)
            words = f"elements {first} to {first + line * per_lane - 1}"
            draw.write(ax, start + line / 2, y - 0.85, words, va="top", fontsize=9.5)
    draw.bare(ax, (-3.4, lanes + 0.3), (0.3 - 2.6 * warps, 0.2))
    words = f"{warps} rows of 32 boxes, one row for each warp and one box for each lane. Every "
    words += f"{line} lanes in a row share a cache line of {line * per_lane} elements."
    title = f"One load of a warp fetches {lanes // line} whole cache lines of 128 bytes"
    draw.finish(figure, title, words)


def block_sweep(measurement, blocks: list[int]) -> None:
    """Per cent of copy bandwidth against BLOCK."""
    figure, ax = plt.subplots(figsize=(8.0, 3.7))
    copy = measurement["copy"].median_us
    share = {block: 100 * copy / measurement[f"block {block}"].median_us for block in blocks}
    ax.plot(share.keys(), share.values(), marker="o", color=GREEN)
    ax.axhline(100, color=INK, linewidth=1.0, linestyle=":")
    draw.log_ticks(ax, "x", blocks[::2])
    ax.set(xlabel="BLOCK, elements of a program", ylabel="% of copy bandwidth", ylim=(0, None))
    ax.grid(True)
    enough = next((block for block in blocks if share[block] >= 95), None)
    title = "No BLOCK reaches 95 % of copy bandwidth"
    if enough:
        title = f"From BLOCK = {enough} on, the kernel keeps pace with the copy"
    points = ", ".join(f"{block}: {per_cent:.0f} %" for block, per_cent in share.items())
    words = f"Per cent of copy bandwidth over BLOCK. {points}."
    draw.finish(figure, title, words, measurement.source)
