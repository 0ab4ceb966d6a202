"""Drawings of notebook 05 and its detour: loads and stores, tiles, their threads, the sweep."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .style import (
    BLUE,
    INK,
    ON_COLOR,
    ORANGE,
    PROGRAM_COLORS,
    PURPLE,
    RED,
    SMALL,
    WIDTH,
    conclude,
    describe,
    finish,
)


def loads_and_stores(ax: Axes, nodes: list, title: str) -> None:
    """Memory on top and at the bottom, and between them what a program computes.

    Each node is (elements it loads, elements it stores, number of its program).
    """
    count = 1 + max(max(stored) for _, stored, _ in nodes)
    for place in range(count):
        for height, name in ((2, "t"), (0, "out")):
            box = Rectangle((place - 0.4, height - 0.16), 0.8, 0.32, fill=False, edgecolor=INK)
            ax.add_patch(box)
            ax.text(place, height, f"{name}{place}", ha="center", va="center", fontsize=SMALL)
    for number, (loaded, stored, program) in enumerate(nodes):
        middle = (number + 0.5) * count / len(nodes) - 0.5
        color = PROGRAM_COLORS[program]
        for place in loaded:
            ax.plot([place, middle], [1.84, 1.16], color=color, linewidth=1.4)
        for place in stored:
            ax.plot([middle, place], [0.84, 0.16], color=color, linewidth=1.4)
        ax.add_patch(Rectangle((middle - 0.36, 0.84), 0.72, 0.32, color=color))
        label = ",".join(str(place) for place in stored)
        ax.text(middle, 1, label, color=ON_COLOR, ha="center", va="center", fontsize=SMALL)
    ax.set(xlim=(-0.6, count - 0.4), ylim=(-0.3, 2.3), title=title)
    ax.axis("off")
    describe(
        ax.figure,
        "Memory is above and below, and what programs compute is between them. Lines join each "
        "result to the elements that it loads and stores.",
    )


def tile(ax: Axes, rows: int, existing: int, pairs: int, real_pairs: int) -> None:
    """The blocks of one program of the tile kernel: angles above, rows of both halves below."""
    gap = 1.2
    for half, (name, color) in enumerate((("1", BLUE), ("2", ORANGE))):
        left = half * (pairs + gap)
        _grid(ax, left, rows + 0.9, 1, pairs, lambda _, p: p < real_pairs, PURPLE)
        _grid(ax, left, 0, rows, pairs, lambda r, p: r < existing and p < real_pairs, color)
        middle = left + pairs / 2
        ax.text(middle, rows + 2.1, f"angle{name}[None, :]  (1, {pairs})", ha="center")
        ax.text(middle, -0.3, f"x{name}  ({rows}, {pairs})", ha="center", va="top")
        ax.annotate(
            "", (middle, rows + 0.1), (middle, rows + 0.85),
            arrowprops={"arrowstyle": "-|>", "color": INK},
        )  # fmt: skip
    ax.text(-0.3, rows / 2, "row", rotation=90, ha="right", va="center")
    ax.set(xlim=(-1, 2 * pairs + gap + 0.2), ylim=(-1.2, rows + 2.9), aspect="equal")
    ax.axis("off")
    key = {"angles": PURPLE, "first halves": BLUE, "second halves": ORANGE}
    patches = [Rectangle((0, 0), 1, 1, color=color) for color in key.values()]
    patches.append(Rectangle((0, 0), 1, 1, fill=False, edgecolor=RED, linestyle=":"))
    ax.figure.legend(patches, [*key, "masked off"], loc="outside lower center", ncols=4)
    conclude(ax.figure, "One row of angles serves every row of the tile")
    describe(
        ax.figure,
        f"Two blocks of {rows} rows and {pairs} pairs, each below a row of {pairs} angles. "
        f"{rows - existing} row and {pairs - real_pairs} columns are masked off.",
    )


def threads_of_a_tile(ax: Axes, rows: int, warps: int) -> None:
    """Which thread holds which part of a row: 16 threads a row, two rows a warp, then again.

    That is the layout for 128 pairs of 16-bit elements: a thread loads 8 neighbors, 16 bytes.
    """
    for row in range(rows):
        warp = row // 2 % warps
        for column in range(16):
            thread = row % 2 * 16 + column
            corner = (column + 0.04, rows - 1 - row + 0.04)
            ax.add_patch(Rectangle(corner, 0.92, 0.92, color=PROGRAM_COLORS[warp], linewidth=0))
            ax.text(
                column + 0.5, rows - 0.5 - row, str(thread), color=ON_COLOR, ha="center",
                va="center", fontsize=SMALL,
            )  # fmt: skip
        ax.text(-0.3, rows - 0.5 - row, str(row), ha="right", va="center", fontsize=SMALL)
    key = "128 pairs, 8 to a cell; the number is the thread"
    ax.text(8, -0.35, key, ha="center", va="top", fontsize=SMALL)
    ax.text(-1.2, rows / 2, "row", rotation=90, ha="right", va="center", fontsize=SMALL)
    title = f"{_counted(warps, 'warp')}: cos and sin serve {_counted(rows // (2 * warps), 'row')}"
    ax.set(xlim=(-2, 16.2), ylim=(-1.2, rows + 0.1), title=title)
    ax.axis("off")
    describe(
        ax.figure,
        "Tiles as grids, a row of 16 cells for each row of the tile and a color for each warp. "
        "Each cell names the thread that holds its 8 pairs.",
    )


def tile_sweep(measurement, block_rows: tuple, warps: tuple, evaluations) -> None:
    """Per cent of copy bandwidth over the rows of a tile, and over the evaluations per pair.

    `evaluations(block_r, num_warps)` is the predicted number of sin/cos evaluations per pair.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4.2), sharey=True)
    copy, best = measurement["copy"].median_us, (0, 0, "")
    for place, num_warps in enumerate(warps):
        share = [
            100 * copy / measurement[f"{block_r} rows, {num_warps} warps"].median_us
            for block_r in block_rows
        ]
        label = _counted(num_warps, "warp")
        style = {"color": PROGRAM_COLORS[place], "marker": "os^D"[place], "label": label}
        best = max(best, *zip(share, block_rows, [label] * len(share), strict=True))
        left.plot(block_rows, share, **style)
        aside = (0.93, 1, 1.07)[place]  # that no point hides another
        predicted = [aside * evaluations(block_r, num_warps) for block_r in block_rows]
        right.plot(predicted, share, linestyle="none", markersize=7, **style)
    for ax, label in (
        (left, "rows per tile, BLOCK_R"),
        (right, "sin/cos evaluations per pair (points moved apart)"),
    ):
        ax.axhline(100, color=INK, linewidth=1, linestyle=":")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(plt.FormatStrFormatter("%g"))
        ax.set(xlabel=label, ylim=(0, 105))
    rows = f"{_counted(best[1], 'row')}, {best[2]}"
    left.set(ylabel="% of copy bandwidth", title=f"Best: {rows}")
    right.set(title="Slow: many evaluations, or spills (left end)")
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(warps))
    finish(
        figure,
        "",
        f"Left, per cent of copy bandwidth over the rows of a tile; the best tile, {rows}, reaches "
        f"{best[0]:.0f} %. Right, the same tiles over the sin/cos evaluations per pair: the more "
        "evaluations, the slower, but for the tile whose registers spill.",
        measurement.source,
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _grid(ax: Axes, left: float, bottom: float, rows: int, columns: int, exists, color) -> None:
    """Cells of a block, row 0 on top; those that do not exist are hollow."""
    for row in range(rows):
        for column in range(columns):
            corner = (left + column + 0.06, bottom + rows - 1 - row + 0.06)
            look = (
                {"color": color, "linewidth": 0}
                if exists(row, column)
                else {"fill": False, "edgecolor": RED, "linestyle": ":"}
            )
            ax.add_patch(Rectangle(corner, 0.88, 0.88, **look))
