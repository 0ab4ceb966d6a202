"""Drawings of notebook 05 and its detour: loads and stores, tiles, their threads, the sweep."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from . import style as draw
from .style import BLUE, INK, ORANGE, PROGRAM_COLORS, PURPLE, RED, WIDTH


def loads_and_stores(ax: Axes, nodes: list, title: str) -> None:
    """Memory on top and at the bottom, and between them what a program computes.

    Each node is (elements it loads, elements it stores, number of its program).
    """
    count = 1 + max(max(stored) for _, stored, _ in nodes)
    for place in range(count):
        for height, name in ((2, "t"), (0, "out")):
            draw.frame(ax, place, height, 0.8, 0.32)
            draw.write(ax, place, height, f"{name}{place}")
    for number, (loaded, stored, program) in enumerate(nodes):
        middle = (number + 0.5) * count / len(nodes) - 0.5
        color = PROGRAM_COLORS[program]
        for place in loaded:
            ax.plot([place, middle], [1.84, 1.16], color=color, linewidth=1.4)
        for place in stored:
            ax.plot([middle, place], [0.84, 0.16], color=color, linewidth=1.4)
        draw.box(ax, middle, 1, 0.72, 0.32, color, ",".join(map(str, stored)))
    draw.bare(ax, (-0.6, count - 0.4), (-0.3, 2.3), title=title)
    words = "Memory is above and below, and what programs compute is between them. Lines join each "
    draw.describe(ax.figure, words + "result to the elements that it loads and stores.")


def tile(ax: Axes, rows: int, existing: int, pairs: int, real_pairs: int) -> None:
    """The blocks of one program of the tile kernel: angles above, rows of both halves below."""
    gap = 1.2
    for half, (name, color) in enumerate((("1", BLUE), ("2", ORANGE))):
        left = half * (pairs + gap)
        middle = left + pairs / 2
        for pair in range(pairs):
            x, exists = left + pair + 0.5, pair < real_pairs
            _cell(ax, x, rows + 1.4, PURPLE, exists)
            for row in range(rows):
                _cell(ax, x, rows - row - 0.5, color, exists and row < existing)
        ax.text(middle, rows + 2.1, f"angle{name}[None, :]  (1, {pairs})", ha="center")
        ax.text(middle, -0.3, f"x{name}  ({rows}, {pairs})", ha="center", va="top")
        draw.arrow(ax, (middle, rows + 0.85), (middle, rows + 0.1))
    ax.text(-0.3, rows / 2, "row", rotation=90, ha="right", va="center")
    draw.bare(ax, (-1, 2 * pairs + gap + 0.2), (-1.2, rows + 2.9), aspect="equal")
    key = {"angles": PURPLE, "first halves": BLUE, "second halves": ORANGE}
    patches = [Rectangle((0, 0), 1, 1, color=color) for color in key.values()]
    patches.append(Rectangle((0, 0), 1, 1, fill=False, edgecolor=RED, linestyle=":"))
    ax.figure.legend(patches, [*key, "masked off"], loc="outside lower center", ncols=4)
    draw.conclude(ax.figure, "One row of angles serves every row of the tile")
    words = f"Two blocks of {rows} rows and {pairs} pairs, each below a row of {pairs} angles. "
    words += f"{rows - existing} row and {pairs - real_pairs} columns are masked off."
    draw.describe(ax.figure, words)


def _cell(ax: Axes, x: float, y: float, color: str, exists: bool) -> None:
    if exists:
        draw.box(ax, x, y, 0.88, 0.88, color)
    else:
        draw.frame(ax, x, y, 0.88, 0.88, RED, linestyle=":")


def threads_of_a_tile(ax: Axes, rows: int, warps: int) -> None:
    """Which thread holds which part of a row: 16 threads a row, two rows a warp, then again.

    That is the layout for 128 pairs of 16-bit elements: a thread loads 8 neighbors, 16 bytes.
    """
    holders = [[(row // 2 % warps, row % 2 * 16 + x) for x in range(16)] for row in range(rows)]
    grid_of_holders(ax, holders, "128 pairs, 8 to a cell; the number is the thread")
    served = _counted(rows // (2 * warps), "row")
    ax.set_title(f"{_counted(warps, 'warp')}: cos and sin serve {served}")
    words = "Tiles as grids, a row of 16 cells for each row of the tile and a color for each warp. "
    draw.describe(ax.figure, words + "Each cell names the thread that holds its 8 pairs.")


def grid_of_holders(ax: Axes, holders: list[list[tuple[int, int]]], words: str) -> None:
    """Rows of cells, with the color of the warp and the number of the lane that holds each."""
    rows, columns = len(holders), len(holders[0])
    for row, cells in enumerate(holders):
        y = rows - 0.5 - row
        draw.write(ax, -0.3, y, str(row), ha="right")
        for column, (warp, lane) in enumerate(cells):
            draw.box(ax, column + 0.5, y, 0.92, 0.92, PROGRAM_COLORS[warp], str(lane))
    draw.write(ax, columns / 2, -0.35, words, va="top")
    draw.write(ax, -1.2, rows / 2, "row", rotation=90, ha="right")
    draw.bare(ax, (-2, columns + 0.2), (-1.3, rows + 0.1))


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
    for ax in (left, right):
        ax.axhline(100, color=INK, linewidth=1, linestyle=":")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(plt.FormatStrFormatter("%g"))
    rows = f"{_counted(best[1], 'row')}, {best[2]}"
    left.set(xlabel="rows per tile, BLOCK_R", title=f"Best: {rows}")
    left.set(ylabel="% of copy bandwidth", ylim=(0, 105))
    right.set(xlabel="sin/cos evaluations per pair (points moved apart)")
    right.set(title="Slow: many evaluations, or spills (left end)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(warps))
    words = f"Left, per cent of copy bandwidth over the rows of a tile; the best tile, {rows}, "
    words += f"reaches {best[0]:.0f} %. Right, the same tiles over the sin/cos evaluations per "
    words += "pair: the more evaluations, the slower, but for the tile whose registers spill."
    draw.finish(figure, "", words, measurement.source)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)
