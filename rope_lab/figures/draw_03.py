"""Drawings of notebook 03: who loads what, who waits for whom, and measured times."""

import math

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ON_COLOR,
    ORANGE,
    PALE,
    PROGRAM_COLORS,
    RED,
    SMALL,
    WIDTH,
    bars_on,
    color_key,
    finish,
    spoken,
)  # fmt: skip

# by warps: marker, size, color; where curves lie on one line, each still shows around the next
_MARKERS = {1: ("o", 11, BLUE), 2: ("s", 8, ORANGE), 4: ("^", 5, GREEN), 8: ("D", 5, RED)}


def who_loads_what(n: int, block: int) -> None:
    """Elements in a row, colored by the program that handles them; the masked tail is hollow."""
    programs = -(-n // block)
    figure, ax = plt.subplots(figsize=(8.0, 1.9))
    for i in range(programs * block):
        _box(ax, i, 0, str(i), _color_of(i // block), masked=i >= n)
    for program in range(programs):
        middle = program * block + (block - 1) / 2
        ends = [middle - block / 2 + 0.1, middle + block / 2 - 0.1]
        ax.plot(ends, [-0.62] * 2, color=_color_of(program))
        ax.text(middle, -1.0, f"program {program}", ha="center", va="center")
    beyond = programs * block - n
    _frame(ax, programs * block, -1.3, 0.6)
    finish(
        figure,
        f"The mask keeps program {programs - 1} from {beyond} elements that do not exist",
        f"{programs * block} boxes in a row, {block} for each of {programs} programs. The last "
        f"{beyond} are hollow.",
    )


def warps_and_lanes(warps: int, per_lane: int, element_bytes: int = 4) -> None:
    """One program: a row for each warp, a box for each lane, and the cache lines that it loads."""
    lanes, line = 32, 128 // (per_lane * element_bytes)  # lanes that share a cache line
    figure, ax = plt.subplots(figsize=(WIDTH, 2.8))
    for warp in range(warps):
        y = -1.0 - 2.6 * warp
        for lane in range(lanes):
            ax.add_patch(
                Rectangle((lane + 0.05, y), 0.9, 1, color=PROGRAM_COLORS[warp], linewidth=0)
            )
            ax.text(
                lane + 0.5, y + 0.5, str(lane), color=ON_COLOR, fontsize=SMALL, ha="center",
                va="center",
            )  # fmt: skip
        ax.text(-0.4, y + 0.5, f"warp {warp}", ha="right", va="center")
        for start in range(0, lanes, line):
            first = (warp * lanes + start) * per_lane
            ax.plot([start + 0.1, start + line - 0.1], [y - 0.2] * 2, color=INK, linewidth=1.2)
            ax.text(
                start + line / 2, y - 0.35, f"elements {first} to {first + line * per_lane - 1}",
                ha="center", va="top", fontsize=9.5,
            )  # fmt: skip
    lines = lanes // line
    ax.set(xlim=(-3.4, lanes + 0.3), ylim=(-1.0 - 2.6 * (warps - 1) - 1.3, 0.2))
    ax.axis("off")
    finish(
        figure,
        f"One load of a warp fetches {lines} whole cache lines of 128 bytes",
        f"{warps} rows of 32 boxes, one row for each warp and one box for each lane. Every "
        f"{line} lanes in a row share a cache line of {line * per_lane} elements.",
    )


def every_eighth(sectors: int) -> None:
    """Sectors of eight elements in memory; a warp of the strided copy wants one in each."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.9))
    for sector in range(sectors):
        left = 9 * sector
        ax.add_patch(
            Rectangle((left - 0.62, 1.38), 8.24, 1.24, fill=False, edgecolor=INK, linewidth=1.2)
        )
        for i in range(8):
            _box(ax, left + i, 2.0, str(8 * sector + i), BLUE if i == 0 else PALE)
        ax.text(left + 3.5, 3.15, "one sector, 32 bytes", ha="center", va="center", fontsize=9.5)
        target = 9 * (sectors - 1) / 2 + sector - 1.5
        ax.add_patch(
            FancyArrowPatch(
                (left, 1.35), (target, -0.5), arrowstyle="-|>", mutation_scale=10, color=BLUE,
                linewidth=1.4, shrinkA=0, shrinkB=0,
            )
        )  # fmt: skip
        _box(ax, target, -1.0, str(8 * sector), BLUE)
    for y, name in ((2.0, "x"), (-1.0, "out")):
        ax.text(-1.2, y, name, ha="right", va="center")
    _frame(ax, 9 * sectors, -1.6, 3.4, left=-3.0)
    finish(
        figure,
        "Of eight elements that memory sends, one is used",
        f"{sectors} sectors of eight elements. The strided copy takes the first element of each, "
        "which is blue, and leaves seven, which are pale.",
    )


def partners(n: int, row: int, block: int) -> None:
    """A gather and a scatter of `rotate_half`: which program reads and writes which element."""
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 4.2))
    for ax, scatter in zip(axes, (False, True), strict=True):
        _moves(ax, n, row // 2, block, scatter)
    axes[0].set_title("Gather: each program writes one whole block and reads from two places")
    axes[1].set_title("Scatter: each program reads one whole block and writes to two places")
    programs = range(n // block)
    color_key(figure, {f"program {program}": _color_of(program) for program in programs})
    finish(
        figure,
        "",
        "In each half of the figure x is above and out is below. Arrows cross from the first half "
        "of a row to the second and back; what goes to the first half changes its sign.",
    )


def _moves(ax: Axes, n: int, half: int, block: int, scatter: bool) -> None:
    """x above, out below with what it holds; arrows for one pair, colors for programs."""
    for i in range(n):
        first = i % (2 * half) < half
        partner = i + half if first else i - half
        # program i // block handles index i: of x in a scatter, of out in a gather
        owners = (i, partner) if scatter else (partner, i)
        _box(ax, i, 2.4, str(i), _color_of(owners[0] // block))
        sign = "\u2212" if first else ""
        _box(ax, i, 0.1, f"{sign}{partner}", _color_of(owners[1] // block))
    for source in (1, 1 + half):
        target = source + half if source < half else source - half
        color = _color_of((source if scatter else target) // block)
        ax.add_patch(
            FancyArrowPatch(
                (source, 1.92), (target, 0.58), arrowstyle="-|>", mutation_scale=11, color=color,
                linewidth=1.8, shrinkA=0, shrinkB=0,
            )
        )  # fmt: skip
    for y, name in ((2.4, "x"), (0.1, "out")):
        ax.text(-0.9, y, name, ha="right", va="center")
    _frame(ax, n, -0.5, 3.0, left=-2.2)


def host_and_device(host: float, small: float, large: float, calls: int) -> None:
    """A sketch of calls in a row, with short and with long kernels: who waits for whom."""
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 3.8), sharex=True)
    _queue(axes[0], host, small, calls, "16 elements: the device waits for the host")
    _queue(axes[1], host, large, calls, "16 million elements: the host is ahead")
    axes[1].set_xlabel("microseconds (a sketch)")
    finish(
        figure,
        "",
        f"Two timelines of {calls} calls. Above, each short kernel starts when its call has been "
        "queued, and the device is idle in between. Below, the host has queued all calls while "
        "the device still runs, without a gap.",
    )


def _queue(ax: Axes, host: float, device: float, calls: int, title: str) -> None:
    """When the host queues each call, and when the device runs it."""
    free = 0.0  # when the device has finished what came before
    for call in range(calls):
        queued = (call + 1) * host
        start = max(free, queued)
        free = start + device
        color = _color_of(call)
        ax.barh(1, host - 0.4, left=call * host, color=color, height=0.62)
        ax.barh(0, max(device - 0.4, 1.0), left=start, color=color, height=0.62)
        ax.text((call + 0.5) * host, 1, str(call), color=ON_COLOR, ha="center", va="center")
        if device > 8:
            ax.text(start + device / 2, 0, str(call), color=ON_COLOR, ha="center", va="center")
    ax.set_yticks([0, 1], ["device runs", "host queues"])
    ax.set_title(title, loc="left")


def bars(measurement, title: str, ours: tuple[str, ...], pytorch: tuple[str, ...]) -> None:
    """Horizontal bars of times on either clock: ours green, PyTorch's blue, all else grey."""
    times = {name: timing.median_us for name, timing in measurement.cases.items()}
    figure, ax = plt.subplots(figsize=(8.0, 1.5 + 0.36 * len(times)))
    colors = [GREEN if name in ours else BLUE if name in pytorch else GREY for name in times]
    bars_on(ax, times, colors, digits=lambda time: 0 if time > 100 else 1)
    ax.set(xlabel=f"{measurement.clock} time in microseconds (shorter is better)")
    words = f"Bars of {measurement.clock} time: {spoken(times, digits=1)}."
    finish(figure, title, words, measurement.source)


def curves(host, device, sizes: list[int]) -> None:
    """Host and device time against the number of elements; beside it the larger of the two."""
    figure, (parts, larger) = plt.subplots(1, 2, figsize=(WIDTH, 4.5), sharey=True)
    high = 0.0
    for who, color, marker in (("PyTorch", BLUE, "o"), ("ours", GREEN, "^")):
        labels = [f"{who}, {n} elements" for n in sizes]
        on_host = [host[label].median_us for label in labels]
        on_device = [device[label].median_us for label in labels]
        look = {"color": color, "marker": marker, "markersize": 5}
        parts.plot(sizes, on_host, linestyle="--", label=f"{who}, host", **look)
        parts.plot(sizes, on_device, label=f"{who}, device", **look)
        both = [max(pair) for pair in zip(on_host, on_device, strict=True)]
        larger.plot(sizes, both, label=who, **look)
        high = max(high, *both)
    parts.set(ylabel="microseconds", title="Host time is flat, device time grows")
    larger.set(title="A call costs the larger of the two")
    top = 5 * 2 ** math.ceil(math.log2(high / 5))  # the tick above the longest time
    ticks = [2.5 * 2**e for e in range(1 + round(math.log2(top / 2.5)))]
    for ax in (parts, larger):
        ax.set(xscale="log", yscale="log", xlabel="elements (fp32)", ylim=(ticks[0], top))
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks([], minor=True)
        ax.grid(True)
        handles, names = ax.get_legend_handles_labels()
        ax.legend(
            handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, handlelength=3
        )
    finish(
        figure,
        "",
        f"Left, host and device times from {sizes[0]} to {sizes[-1]} elements, PyTorch's and ours. "
        "Right, the larger of the two for each: flat at first, then rising with the device time.",
        host.source,
    )


def block_sweep(measurement, blocks: list[int]) -> None:
    """Per cent of copy bandwidth against BLOCK."""
    figure, ax = plt.subplots(figsize=(8.0, 3.7))
    copy = measurement["copy"].median_us
    share = [100 * copy / measurement[f"block {block}"].median_us for block in blocks]
    ax.plot(blocks, share, marker="o", color=GREEN)
    _axis_of_blocks(ax, blocks)
    enough = next((b for b, s in zip(blocks, share, strict=True) if s >= 95), None)
    conclusion = "No BLOCK reaches 95 % of copy bandwidth"
    if enough:
        conclusion = f"From BLOCK = {enough} on, the kernel keeps pace with the copy"
    ax.set_ylabel("% of copy bandwidth")
    points = ", ".join(f"{b}: {s:.0f} %" for b, s in zip(blocks, share, strict=True))
    words = f"Per cent of copy bandwidth over BLOCK. {points}."
    finish(figure, conclusion, words, measurement.source)


def sweep_of_warps(measurement, sizes: list[int], blocks: list[int]) -> None:
    """Per cent of copy bandwidth over BLOCK: a panel for each size, a line for each num_warps."""
    figure, axes = plt.subplots(1, len(sizes), figsize=(WIDTH, 4.4), sharey=True)
    for ax, n in zip(axes, sizes, strict=True):
        copy = measurement[f"copy, {n} elements"].median_us
        for warps, (marker, size, color) in _MARKERS.items():
            labels = {b: f"{n} elements, block {b}, {warps} warps" for b in blocks}
            taken = {b: label for b, label in labels.items() if label in measurement.cases}
            share = [100 * copy / measurement[label].median_us for label in taken.values()]
            name = f"num_warps={warps}"
            ax.plot(list(taken), share, marker=marker, markersize=size, color=color, label=name)
        _axis_of_blocks(ax, blocks)
        ax.set_title(f"{n / 2**20:.0f} Mi elements in fp32")
    axes[0].set_ylabel("% of copy bandwidth")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    finish(
        figure,
        "BLOCK decides; the number of warps hardly does",
        "Per cent of copy bandwidth over BLOCK for 1, 2, 4 and 8 warps. The four curves lie almost "
        "on one line.",
        measurement.source,
    )


def _axis_of_blocks(ax: Axes, blocks: list[int]) -> None:
    ax.axhline(100, color=INK, linewidth=1.0, linestyle=":")
    ax.set_xscale("log", base=2)
    ax.set_xticks(blocks[::2], [str(b) for b in blocks[::2]])
    ax.set(xlabel="BLOCK, elements of a program")
    ax.set_ylim(0)
    ax.grid(True)


def _color_of(program: int) -> str:
    return PROGRAM_COLORS[program % len(PROGRAM_COLORS)]


def _box(ax: Axes, x: float, y: float, label: str, color: str, masked: bool = False) -> None:
    shape = Rectangle(
        (x - 0.43, y - 0.43), 0.86, 0.86, fill=not masked, edgecolor=color, facecolor=color,
        linestyle="--" if masked else "-",
    )  # fmt: skip
    ax.add_patch(shape)
    ax.text(
        x, y, label, color=INK if masked else ON_COLOR, ha="center", va="center", fontsize=SMALL
    )


def _frame(ax: Axes, count: int, bottom: float, top: float, left: float = -0.7) -> None:
    ax.set(xlim=(left, count - 0.3), ylim=(bottom, top), aspect="equal")
    ax.axis("off")
