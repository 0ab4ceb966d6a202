"""Drawings of notebook 07 and its detour: stages, layouts, registers, sines, errors."""

from collections import Counter
from itertools import product
from textwrap import shorten

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from ..compiler.instructions import executed
from ..compiler.stages import kernel_lines, operations
from .style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ON_COLOR,
    ORANGE,
    PROGRAM_COLORS,
    PURPLE,
    RED,
    SMALL,
    WIDTH,
    color_key,
    finish,
)

STAGE_COLORS = {
    "python": GREY, "ttir": BLUE, "ttgir": ORANGE, "llir": GREY, "ptx": GREEN, "sass": PURPLE
}  # fmt: skip

_STAGES = (  # name, title, what it is about, who makes it from the last
    ("python", "Python", "your lines", ""),
    ("ttir", "TTIR", "blocks", "Triton"),
    ("ttgir", "TTGIR", "blocks with\nlayouts", "Triton"),
    ("llir", "LLVM IR", "one thread", "Triton"),
    ("ptx", "PTX", "one thread,\nvirtual registers", "LLVM"),
    ("sass", "SASS", "one thread,\nreal registers", "ptxas"),
)


def stages() -> None:
    """From the kernel's lines to machine code: five stages, and what makes each from the last."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.9))
    for place, (name, title, about, maker) in enumerate(_STAGES):
        left = 1.84 * place
        ax.add_patch(Rectangle((left, 0), 1.15, 0.8, color=STAGE_COLORS[name], linewidth=0))
        ax.text(left + 0.575, 0.4, title, color=ON_COLOR, ha="center", va="center")
        ax.text(left + 0.575, -0.15, about, ha="center", va="top", fontsize=SMALL)
        if maker:
            arrow = {"arrowstyle": "-|>", "color": INK}
            ax.annotate("", (left - 0.02, 0.4), (left - 0.67, 0.4), arrowprops=arrow)
            ax.text(left - 0.34, 0.55, maker, ha="center", va="bottom", fontsize=SMALL)
    ax.set(xlim=(-0.1, 10.5), ylim=(-0.75, 0.95))
    ax.axis("off")
    path = ", then ".join(title for _, title, _, _ in _STAGES)
    words = f"Boxes from left to right: {path}. Triton makes TTIR, TTGIR and LLVM IR, LLVM makes "
    words += "PTX, ptxas makes SASS."
    finish(figure, "Five stages lead from blocks to one thread's instructions", words)


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
    figure, ax = plt.subplots(figsize=(WIDTH, 0.23 * height + 0.5))
    top = height
    for name, texts in blocks:
        bottom = top - len(texts)
        ax.add_patch(Rectangle((0, bottom), 0.9, len(texts), color=STAGE_COLORS[name], linewidth=0))
        title = "Python" if name == "python" else name.upper()
        middle = (top + bottom) / 2
        ax.text(0.45, middle, title, color=ON_COLOR, ha="center", va="center", fontsize=SMALL)
        for number, text in enumerate(texts):
            text = shorten(text, 92, placeholder=" ...")
            ax.text(1.05, top - number - 0.5, text, family="monospace", fontsize=SMALL, va="center")
        top = bottom - 0.7
    ax.set(xlim=(0, 11.5), ylim=(0, height))
    ax.axis("off")
    counts = ", ".join(f"{name.upper()} {len(texts)}" for name, texts in blocks[1:])
    finish(
        figure,
        "One load of a block becomes many instructions of a thread",
        f"The line {line!r} and what it becomes in each stage. Lines shown: {counts}.",
    )


def instructions_by_line(code) -> None:
    """The kernel's lines, and the machine instructions of each: executed, and jumped over."""
    all_of = Counter(operation.line for operation in operations(code, "sass"))
    done = Counter(operation.line for operation in executed(code))
    lines = kernel_lines(code)
    body = [number for number in sorted(all_of) if number > min(lines)]
    figure, (words, bars) = plt.subplots(
        1, 2, figsize=(WIDTH, 1.6 + 0.27 * len(body)), width_ratios=(1.2, 1), sharey=True
    )
    longest = max(all_of[number] for number in body)
    for place, number in enumerate(body):
        text = shorten(lines[number].strip(), 44, placeholder=" ...")
        words.text(0, place, text, family="monospace", fontsize=SMALL, va="center")
        always, over = done[number], all_of[number] - done[number]
        bars.barh(place, always, color=BLUE, height=0.7)
        bars.barh(place, over, left=always, color=ORANGE, height=0.7)
        note = f"{always} + {over}" if over else str(always)
        bars.text(all_of[number] + 0.015 * longest, place, note, va="center", fontsize=SMALL)
    words.set(xlim=(0, 1), ylim=(len(body) - 0.4, -0.7))
    words.axis("off")
    bars.set(xlim=(0, 1.3 * longest), xlabel="machine instructions (SASS)", yticks=[])
    bars.spines["left"].set_visible(False)
    color_key(figure, {"executed": BLUE, "jumped over": ORANGE})
    each = "; ".join(f"{lines[n].strip()}: {done[n]} of {all_of[n]}" for n in body)
    finish(
        figure,
        "A warp jumps over most of the code of sine and cosine",
        f"The kernel's lines, each with a bar: machine instructions executed, of all. {each}.",
    )


def owners(layouts: dict, owner, rows: int = 8, pairs: int = 128) -> None:
    """Which lane of which warp holds each pair of a tile, under each of two layouts.

    Args:
        layouts: the number of warps -> layout.
        owner: `owner(layout, row, pair)` -> warp, lane.
        rows: of the tile.
        pairs: of a row.
    """
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    for ax, (count, layout) in zip(axes, layouts.items(), strict=True):
        size = layout.size_per_thread[1]
        columns = pairs // size
        for row, column in product(range(rows), range(columns)):
            warp, lane = owner(layout, row, column * size)
            corner = (column + 0.04, rows - 1 - row + 0.04)
            color = PROGRAM_COLORS[warp]
            ax.add_patch(Rectangle(corner, 0.92, 0.92, color=color, linewidth=0))
            place = {"ha": "center", "va": "center", "fontsize": SMALL, "color": ON_COLOR}
            ax.text(column + 0.5, rows - 0.5 - row, str(lane), **place)
        for row in range(rows):
            ax.text(-0.3, rows - 0.5 - row, str(row), ha="right", va="center", fontsize=SMALL)
        words = f"{pairs} pairs, {size} to a cell; the number is the lane"
        ax.text(columns / 2, -0.35, words, ha="center", va="top", fontsize=SMALL)
        ax.text(-1.2, rows / 2, "row", rotation=90, ha="right", va="center")
        ax.set(xlim=(-2, columns + 0.2), ylim=(-1.4, rows + 0.1))
        ax.set_title(f"{count} warp" + "s, a color each" * (count > 1))
        ax.axis("off")
    finish(
        figure,
        "Lanes fill a row, then warps go down",
        f"Two grids of {rows} rows. Each cell names the lane that holds its pairs; lanes count "
        "along a row and go on in the next. With one warp all cells have one color; with four, "
        "the color changes every two rows.",
    )


def occupancy_and_speed(codes: dict, in_flight: dict, instructions: dict, record: dict) -> None:
    """Speed of each tile, from notebook 05's record, beside what might explain it.

    Args:
        codes: compiled tiles, `codes[rows, warps]`.
        in_flight: bytes that the programs of an SM request together, by the same keys.
        instructions: instruction time of the launch in microseconds, by the same keys.
        record: of notebook 05's sweep.
    """
    times = {case: timing["median_us"] for case, timing in record["cases"].items()}
    speed = {key: 100 * times["copy"] / times["{} rows, {} warps".format(*key)] for key in codes}
    order = sorted(codes, key=speed.get, reverse=True)
    figure, (words, bars) = plt.subplots(
        1, 2, figsize=(WIDTH, 1.8 + 0.25 * len(order)), width_ratios=(1.35, 1), sharey=True
    )
    columns = {
        "rows": lambda key: str(key[0]),
        "warps": lambda key: str(key[1]),
        "registers": lambda key: str(codes[key].registers),
        "occupancy": lambda key: f"{round(100 * codes[key].occupancy, 1):g}%",
        "KiB in\nflight": lambda key: f"{in_flight[key] / 1024:.0f}",
        "I/P\nin \u00b5s": lambda key: f"{instructions[key]:.0f}",
    }
    for x, (head, text) in zip((0.08, 0.21, 0.42, 0.65, 0.82, 0.98), columns.items(), strict=True):
        words.text(x, -0.9, head, ha="right", va="bottom", fontsize=SMALL)
        for place, key in enumerate(order):
            words.text(x, place, text(key), ha="right", va="center", fontsize=SMALL)
    for place, key in enumerate(order):
        spills = codes[key].spilled > 0
        bars.barh(place, speed[key], color=ORANGE if spills else GREEN, height=0.66)
        note = f"{speed[key]:.0f}" + " (spills)" * spills
        bars.text(speed[key] + 1, place, note, va="center", fontsize=SMALL)
    words.set(xlim=(0, 1), ylim=(len(order) - 0.4, -2.2))
    words.axis("off")
    bars.set(xlim=(0, 100), yticks=[], xlabel="speed, % of copy bandwidth")
    bars.spines["left"].set_visible(False)
    best, worst = order[0], order[-1]
    warps = f"{best[1]} warp" + "s" * (best[1] > 1)
    finish(
        figure,
        "Instructions sort these tiles into three groups, occupancy does not",
        "A table of tiles from the fastest to the slowest, each with a bar for its speed. The "
        f"first, {best[0]} rows and {warps}, reaches {speed[best]:.0f} % of copy bandwidth "
        f"at an occupancy of {codes[best].occupancy:.0%}; the last reaches {speed[worst]:.0f} % at "
        f"{codes[worst].occupancy:.0%}.",
        f"Notebook 05's sweep: {record['gpu']}, {record['date']}.",
    )


def branches(counts: dict[str, tuple[int, int]], title: str) -> None:
    """Machine instructions of each kernel: those a warp executes, and those it jumps over."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.7 + 0.38 * len(counts)))
    executed = [always for always, _ in counts.values()]
    slow = [slow for _, slow in counts.values()]
    longest = max(map(sum, counts.values()))
    ax.barh(list(counts), executed, color=BLUE, height=0.66)
    ax.barh(list(counts), slow, left=executed, color=ORANGE, height=0.66)
    for place, (always, more) in enumerate(counts.values()):
        text = f"{always} + {more}" if more else str(always)
        ax.text(always + more + 0.01 * longest, place, text, va="center")
    ax.invert_yaxis()
    ax.set(xlabel="machine instructions", xlim=(0, 1.15 * longest))
    color_key(figure, {"always executed": BLUE, "slow branch": ORANGE})
    each = "; ".join(f"{name} {always} + {slow}" for name, (always, slow) in counts.items())
    finish(figure, title, f"Bars of instructions, always executed + slow branch: {each}.")


def errors_of_turns(positions, errors: dict) -> None:
    """Largest error up to each position, in turns, for several ways to the angle."""
    figure, ax = plt.subplots(figsize=(WIDTH, 4.2))
    styles = zip((RED, BLUE, ORANGE, GREEN), ("--", "-", "-", "-"), strict=True)
    for (name, error), (color, line) in zip(errors.items(), styles, strict=False):
        ax.loglog(positions, error, line, color=color, label=name)
    ax.set(xlabel="position", ylabel="largest error so far, in turns")
    figure.legend(loc="outside lower center", ncols=len(errors))
    last = "; ".join(f"{name} {float(error[-1]):.0e}" for name, error in errors.items())
    finish(
        figure,
        "Contracted, the careful kernel is no better than the careless one",
        f"Largest error so far over the position, in turns. At the last position: {last}.",
    )


def _is_filler(text: str) -> bool:
    """Zeros that Triton writes to registers before a load, in case its mask is off."""
    return text.startswith("mov.u32") and text.endswith(", 0x0;")
