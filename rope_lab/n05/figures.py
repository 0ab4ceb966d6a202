"""Drawings of notebook 05: the tile, which thread holds what, the sweep."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from ..compiler.stages import Layout
from ..figures import style as draw
from ..figures.style import BLUE, INK, LIGHT, ON_COLOR, ORANGE, PROGRAM_COLORS, PURPLE, WIDTH


def tile(rows: int, existing: int, pairs: int, real_pairs: int) -> None:
    """The blocks of one program of the tile kernel: angles above, rows of both halves below."""
    figure, ax = plt.subplots(figsize=(8.0, 3.6))
    gap = 1.2
    for half, (name, color) in enumerate((("1", BLUE), ("2", ORANGE))):
        left = half * (pairs + gap)
        middle = left + pairs / 2
        for pair in range(pairs):
            x, exists = left + pair + 0.5, pair < real_pairs
            draw.box(ax, x, rows + 1.4, 0.88, 0.88, PURPLE, exists=exists)
            for row in range(rows):
                there = exists and row < existing
                draw.box(ax, x, rows - row - 0.5, 0.88, 0.88, color, exists=there)
        ax.text(middle, rows + 2.1, f"angle{name}[None, :]  (1, {pairs})", ha="center")
        ax.text(middle, -0.3, f"x{name}  ({rows}, {pairs})", ha="center", va="top")
        draw.arrow(ax, (middle, rows + 0.85), (middle, rows + 0.1))
    ax.text(-0.3, rows / 2, "row", rotation=90, ha="right", va="center")
    draw.bare(ax, (-1, 2 * pairs + gap + 0.2), (-1.2, rows + 2.9), aspect="equal")
    key = {"angles": PURPLE, "first halves": BLUE, "second halves": ORANGE}
    draw.color_key(figure, key)
    draw.finish(figure, "One row of angles serves every row of the tile (dashed: masked off)")


def dealt_out(rows: int, warps: int):
    """The warp and the lane that hold each pair of a tile, both (rows, 128).

    Triton assigns up to 8 to a lane, then continues with the next lanes and warps along
    the row, then with those of the next row. When all have some, it starts again at the first.
    """
    pairs = 128
    size = max(1, min(8, rows * pairs // (32 * warps)))
    lanes = min(32, pairs // size)  # along a row
    beside = min(warps, pairs // size // lanes)  # warps
    layout = Layout((1, size), (32 // lanes, lanes), (warps // beside, beside), (1, 0))
    holders = [[layout.owner(row, pair) for pair in range(pairs)] for row in range(rows)]
    return np.moveaxis(holders, -1, 0)


def who_holds_what(rows: int, warps: int) -> None:
    """A tile of bf16 with 128 pairs a row, each in the color of its warp.

    All threads that hold pair 0 of a row are dark, with their numbers: each computes its sine. A
    warp's name is in the first row of which it has pairs.
    """
    warp, lane = dealt_out(rows, warps)
    thread = 32 * warp + lane
    computes = np.isin(thread, thread[:, 0])
    height = max(3.4, 1.75 + 0.15 * rows)  # a name is as high as a row, or less
    figure, ax = plt.subplots(figsize=(WIDTH, height))
    look = {"aspect": "auto", "interpolation": "none", "vmin": 0, "vmax": 3}
    ax.imshow(warp % 4, cmap=ListedColormap(PROGRAM_COLORS[:4]), **look)
    ax.imshow(np.where(computes, 1.0, np.nan), cmap=ListedColormap([ON_COLOR]), **look)
    ax.hlines(np.arange(1, rows) - 0.5, -0.5, 127.5, color=LIGHT, linewidth=0.8)
    wide = np.flatnonzero(computes[0]).max() / 2  # the middle of a thread's pairs
    for row in range(rows):
        draw.write(ax, wide, row, str(thread[row, 0]), color=LIGHT, va="center")
    for number in range(warps):
        row = np.argmax((warp == number).any(axis=1))
        middle = np.flatnonzero((warp[row] == number) & ~computes[row]).mean()
        draw.write(ax, middle, row, f"warp {number}", color=ON_COLOR)
    ax.set(xlabel="pair", ylabel="row of the tile", xticks=[0, 32, 64, 96, 127])
    ax.set_yticks(range(0, rows, max(1, rows // 8)))
    draw.color_key(figure, {"the number of a thread that computes the sine of pair 0": ON_COLOR})
    count = len(set(thread[:, 0].tolist()))
    title = f"{_counted(count, 'thread')} compute{'s' * (count == 1)} the sine of pair 0"
    draw.finish(figure, title)


def tile_sweep(measurement, block_rows: tuple, warps: tuple, evaluations) -> None:
    """Per cent of copy bandwidth over the rows of a tile, and over the evaluations per pair.

    `evaluations(block_r, num_warps)` is the predicted number of sin/cos evaluations per pair.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.2), sharey=True)
    copy = measurement["copy"].median_us
    for place, num_warps in enumerate(warps):
        cases = [f"{block_r} rows, {num_warps} warps" for block_r in block_rows]
        share = [100 * copy / measurement[case].median_us for case in cases]
        look = {"color": PROGRAM_COLORS[place], "marker": "os^D"[place]}
        left.plot(block_rows, share, label=_counted(num_warps, "warp"), **look)
        aside = (0.93, 1, 1.07)[place]  # that no point hides another
        predicted = [aside * evaluations(block_r, num_warps) for block_r in block_rows]
        right.plot(predicted, share, linestyle="none", markersize=7, **look)
    for ax, ticks in ((left, block_rows), (right, (0.25, 0.5, 1, 2, 4))):
        ax.axhline(100, color=INK, linewidth=1, linestyle=":")
        draw.log_ticks(ax, "x", ticks)
    cases = {case: timing.median_us for case, timing in measurement.cases.items() if case != "copy"}
    best = min(cases, key=cases.get).replace(" 1 warps", " 1 warp")
    left.set(xlabel="rows per tile, BLOCK_R", title=f"Best: {best}")
    left.set(ylabel="% of copy bandwidth", ylim=(0, 105))
    right.set(xlabel="evaluations per pair (points moved apart)")
    right.set(title="Slow: many evaluations")
    figure.legend(loc="outside lower center", ncols=len(warps))
    draw.finish(figure, "", measurement.source)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)
