"""Drawings of notebook 07: stages, a line on its way down, layouts, registers, sines, errors."""

from textwrap import shorten

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..compiler.stages import kernel_lines, operations
from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, PROGRAM_COLORS, PURPLE, RED

STAGE_COLORS = {"python": INK, "ttir": BLUE, "ttgir": ORANGE, "ptx": GREEN, "sass": PURPLE}

_STAGES = (  # name, what it is about, who makes it
    ("python", "your lines", ""),
    ("ttir", "blocks of numbers", "Triton"),
    ("ttgir", "who holds what", "Triton"),
    ("ptx", "one thread,\nnames without end", "LLVM"),
    ("sass", "one thread,\nreal registers", "ptxas"),
)


def stages() -> None:
    """From the kernel's lines to machine code: five texts, and who writes each from the last."""
    _, ax = plt.subplots(figsize=(8.8, 1.7))
    for place, (name, about, maker) in enumerate(_STAGES):
        left = 2.2 * place
        ax.add_patch(Rectangle((left, 0), 1.5, 0.8, color=STAGE_COLORS[name], linewidth=0))
        title = "Python" if name == "python" else name.upper()
        ax.text(left + 0.75, 0.4, title, color=ON_COLOR, ha="center", va="center")
        ax.text(left + 0.75, -0.15, about, ha="center", va="top", fontsize=9)
        if maker:
            arrow = {"arrowstyle": "-|>", "color": INK}
            ax.annotate("", (left - 0.04, 0.4), (left - 0.66, 0.4), arrowprops=arrow)
            ax.text(left - 0.35, 0.55, maker, ha="center", va="bottom", fontsize=9)
    ax.set(xlim=(-0.1, 10.4), ylim=(-0.85, 0.95))
    ax.axis("off")
    plt.show()


def one_line_down(code, piece: str, most: int = 6) -> None:
    """One line of a kernel in every stage; no more than `most` operations of each."""
    (line,) = (text.strip() for text in kernel_lines(code).values() if piece in text)
    blocks = [("python", [line])]
    for stage in ("ttir", "ttgir", "ptx", "sass"):
        texts = [operation.text for operation in operations(code, stage, piece)]
        shown = [text for text in texts if not _is_filler(text)][:most]
        more = len(texts) - len(shown)
        blocks.append((stage, shown + [f"... and {more} more"] * (more > 0)))
    height = sum(len(texts) + 0.7 for _, texts in blocks)
    _, ax = plt.subplots(figsize=(8.8, 0.21 * height))
    top = height
    for name, texts in blocks:
        bottom = top - len(texts)
        ax.add_patch(Rectangle((0, bottom), 0.9, len(texts), color=STAGE_COLORS[name], linewidth=0))
        title = "Python" if name == "python" else name.upper()
        middle = (top + bottom) / 2
        ax.text(0.45, middle, title, color=ON_COLOR, ha="center", va="center", fontsize=9)
        for number, text in enumerate(texts):
            text = shorten(text, 102, placeholder=" ...")
            ax.text(1.05, top - number - 0.5, text, family="monospace", fontsize=8.2, va="center")
        top = bottom - 0.7
    ax.set(xlim=(0, 11.5), ylim=(0, height))
    ax.axis("off")
    plt.show()


def instructions_by_line(code) -> None:
    """The kernel's lines, and beside each how many operations it is in every stage."""
    counts = {}
    for stage in ("ttir", "ptx", "sass"):
        for operation in operations(code, stage):
            row = counts.setdefault(operation.line, {"ttir": 0, "ptx": 0, "sass": 0})
            row[stage] += 1
    lines = kernel_lines(code)
    body = [number for number in sorted(counts) if number > min(lines)]
    _, (words, bars) = plt.subplots(
        1, 2, figsize=(8.8, 0.9 + 0.26 * len(body)), width_ratios=(1.25, 1), sharey=True
    )
    longest = max(counts[number]["sass"] for number in body)
    for place, number in enumerate(body):
        text = shorten(lines[number].strip(), 50, placeholder=" ...")
        words.text(0, place, text, family="monospace", fontsize=7.6, va="center")
        row = counts[number]
        bars.barh(place, row["sass"], color=PURPLE, height=0.7)
        bars.text(row["sass"] + 0.015 * longest, place, str(row["sass"]), va="center", fontsize=9)
        for x, stage in ((0.86, "ttir"), (0.97, "ptx")):
            words.text(x, place, str(row[stage]), ha="right", va="center", fontsize=9)
    for x, stage in ((0.86, "ttir"), (0.97, "ptx")):
        words.text(
            x, -0.9, stage.upper(), ha="right", va="center", fontsize=9, color=STAGE_COLORS[stage]
        )
    words.set(xlim=(0, 1), ylim=(len(body) - 0.4, -1.4))
    words.axis("off")
    bars.set(xlim=(0, 1.15 * longest), xlabel="machine instructions (SASS)", yticks=[])
    bars.spines["left"].set_visible(False)
    plt.show()


def owners(ax: Axes, warp, lane, size: int, title: str) -> None:
    """Who holds which element: `warp` and `lane` of every element, `size` neighbours a cell."""
    rows, columns = warp.shape[0], warp.shape[1] // size
    for row in range(rows):
        for column in range(columns):
            corner = (column + 0.04, rows - 1 - row + 0.04)
            color = PROGRAM_COLORS[int(warp[row, column * size])]
            ax.add_patch(Rectangle(corner, 0.92, 0.92, color=color, linewidth=0))
            number = int(lane[row, column * size])
            place = {"ha": "center", "va": "center", "fontsize": 7, "color": ON_COLOR}
            ax.text(column + 0.5, rows - 0.5 - row, str(number), **place)
        ax.text(-0.3, rows - 0.5 - row, str(row), ha="right", va="center", fontsize=9)
    ax.text(columns / 2, -0.35, f"{warp.shape[1]} pairs, {size} a cell", ha="center", va="top")
    ax.text(-1.2, rows / 2, "row", rotation=90, ha="right", va="center")
    ax.set(xlim=(-2, columns + 0.2), ylim=(-1.4, rows + 0.1), title=title)
    ax.axis("off")


def registers_and_room(codes: dict) -> None:
    """Registers a thread, and the programs that then have room: `codes[rows, warps]`."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.3))
    all_rows, all_warps = (sorted(set(numbers)) for numbers in zip(*codes, strict=True))
    for place, warps in enumerate(all_warps):
        line = [codes[rows, warps] for rows in all_rows]
        style = {"color": PROGRAM_COLORS[place], "marker": "os^D"[place]}
        label = f"{warps} warp" + "s" * (warps > 1)
        left.plot(all_rows, [code.registers for code in line], label=label, **style)
        right.plot(all_rows, [code.programs_at_a_time for code in line], **style)
        for rows, code in zip(all_rows, line, strict=True):
            if code.spilled:
                note = f"{code.spilled} bytes spilled"
                left.text(rows, 264, note, color=RED, ha="right", fontsize=9)
    left.axhline(255, color=INK, linestyle=":", linewidth=1)
    left.text(all_rows[0], 249, "255: all that there are", fontsize=9, va="top")
    left.set(ylim=(0, 290), ylabel="registers a thread")
    right.axhline(32, color=INK, linestyle=":", linewidth=1)
    right.text(all_rows[-1], 31.3, "32: the most", fontsize=9, ha="right", va="top")
    right.set(ylim=(0, 34), ylabel="programs at a time")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(all_rows, [str(rows) for rows in all_rows])
        ax.set_xlabel("rows a tile, BLOCK_R")
    figure.legend(loc="outside upper center", ncols=len(all_warps))
    plt.show()


def room_and_speed(codes: dict, under_way: dict, sines: dict, record: dict) -> None:
    """Speed of each tile, from notebook 05's record, over two things that might explain it.

    Args:
        codes: compiled tiles, `codes[rows, warps]`.
        under_way: bytes that the programs of a multiprocessor ask for, alike.
        sines: computed for one pair, alike.
        record: of notebook 05's sweep.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.5), sharey=True)
    times = {case: timing["median_us"] for case, timing in record["cases"].items()}
    speed = {key: 100 * times["copy"] / times["{} rows, {} warps".format(*key)] for key in codes}
    groups = {"4": (4,), "2": (2,), "1": (1,), "½ or ¼": (0.5, 0.25)}
    for place, (label, values) in enumerate(groups.items()):
        keys = [key for key in codes if sines[key] in values]
        style = {"color": PROGRAM_COLORS[place], "marker": "os^D"[place], "linestyle": "none"}
        y = [speed[key] for key in keys]
        aside = {1: 0.95, 2: 1, 4: 1.05}  # by warps, that no tile hides another
        x = [100 * codes[key].occupancy * aside[key[1]] for key in keys]
        left.plot(x, y, label=label, fillstyle="none", **style)
        x = [under_way[key] / 1024 * aside[key[1]] for key in keys]
        right.plot(x, y, fillstyle="none", **style)
    notes = {key: "spills" for key, code in codes.items() if code.spilled}
    best = max(speed, key=speed.get)
    for key, note in {best: "{} rows, {} warp".format(*best), **notes}.items():
        place = {"ha": "right", "va": "center", "fontsize": 9}
        right.text(0.88 * under_way[key] / 1024, speed[key], note, **place)
    left.set(xlim=(0, 88), xlabel="occupancy, %", ylabel="% of the copy's speed", ylim=(30, 90))
    right.set_xscale("log", base=2)
    right.set_xticks([32, 64, 128], ["32", "64", "128"])
    right.set(xlim=(20, 150), xlabel="KiB under way per multiprocessor")
    left.set_title(f"notebook 05's sweep: {record['gpu']}, {record['date']}", loc="left")
    figure.legend(
        loc="outside upper center",
        ncols=4,
        title="sines per pair; tiles of 1 and 4 warps are moved aside a little",
    )
    plt.show()


def branches(counts: dict[str, tuple[int, int]]) -> None:
    """Machine instructions of each kernel: those on the way, and those of the slow branch."""
    figure, ax = plt.subplots(figsize=(7.0, 1.2 + 0.42 * len(counts)))
    on_the_way = [way for way, _ in counts.values()]
    slow = [slow for _, slow in counts.values()]
    longest = max(map(sum, counts.values()))
    ax.barh(list(counts), on_the_way, color=BLUE, height=0.66, label="always executed")
    ax.barh(list(counts), slow, left=on_the_way, color=ORANGE, height=0.66, label="slow branch")
    for place, (way, more) in enumerate(counts.values()):
        text = f"{way} + {more}" if more else str(way)
        ax.text(way + more + 0.01 * longest, place, text, va="center")
    ax.invert_yaxis()
    ax.set(xlabel="machine instructions", xlim=(0, 1.2 * longest))
    figure.legend(loc="outside upper center", ncols=2)
    plt.show()


def errors_of_turns(positions, errors: dict) -> None:
    """Largest error up to each position, in turns, for several ways to the angle."""
    _, ax = plt.subplots(figsize=(7.6, 3.6))
    styles = zip((RED, BLUE, ORANGE, GREEN), ("--", "-", "-", "-"), strict=True)
    for (name, error), (color, line) in zip(errors.items(), styles, strict=False):
        ax.loglog(positions, error, line, color=color, label=name)
    ax.set(xlabel="position", ylabel="largest error up to there, in turns")
    ax.legend(loc="upper left")
    plt.show()


def _is_filler(text: str) -> bool:
    """Zeros that Triton writes to registers before a load, in case its mask is off."""
    return text.startswith("mov.u32") and text.endswith(", 0x0;")
