"""Drawings of notebook 03: who loads what, who waits for whom, and measured times."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, PROGRAM_COLORS, RED, bars_on, cite

# by warps: marker, size, colour; where curves lie on one line, each still shows around the next
_MARKERS = {1: ("o", 11, BLUE), 2: ("s", 8, ORANGE), 4: ("^", 5, GREEN), 8: ("D", 5, RED)}


def who_loads_what(ax: Axes, n: int, block: int) -> None:
    """Elements in a row, coloured by the program that handles them; the masked tail is hollow."""
    for i in range(-(-n // block) * block):
        _box(ax, i, 0, str(i), PROGRAM_COLORS[i // block % len(PROGRAM_COLORS)], masked=i >= n)
    for program in range(-(-n // block)):
        middle = program * block + (block - 1) / 2
        color = PROGRAM_COLORS[program % len(PROGRAM_COLORS)]
        ax.plot([middle - block / 2 + 0.1, middle + block / 2 - 0.1], [-0.62] * 2, color=color)
        ax.text(middle, -1.0, f"program {program}", ha="center", va="center")
    ax.set_title(f"n = {n}, BLOCK = {block}: dashed elements are masked out", loc="left")
    _frame(ax, -(-n // block) * block, -1.3, 0.6)


def warps_and_lanes(ax: Axes, warps: int, per_lane: int, element_bytes: int = 4) -> None:
    """One program: a row for each warp, a box for each lane with the elements that it loads."""
    lanes, line = 32, 128 // (per_lane * element_bytes)  # lanes that share a line of 128 bytes
    for warp in range(warps):
        y = -1.75 * warp
        for lane in range(lanes):
            ax.add_patch(
                Rectangle((lane + 0.05, y), 0.9, 1, color=PROGRAM_COLORS[warp], linewidth=0)
            )
            first = (warp * lanes + lane) * per_lane
            ax.text(
                lane + 0.5, y + 0.5, f"{first}–{first + per_lane - 1}", color=ON_COLOR,
                fontsize=9, rotation=90, ha="center", va="center",
            )  # fmt: skip
        ax.text(-0.4, y + 0.5, f"warp {warp}", ha="right", va="center")
        for start in range(0, lanes, line):
            ax.plot([start + 0.1, start + line - 0.1], [y - 0.1] * 2, color=INK, linewidth=1.2)
            ax.text(start + line / 2, y - 0.16, "128 bytes", ha="center", va="top", fontsize=8.5)
    for lane in (0, lanes - 1):
        ax.text(lane + 0.5, 1.1, f"lane {lane}", ha="center", fontsize=8.5)
    ax.set(xlim=(-3.4, lanes + 0.6), ylim=(-1.75 * (warps - 1) - 0.55, 1.45))
    ax.axis("off")


def partners(ax: Axes, n: int, row: int, block: int, scatter: bool) -> None:
    """x above, out below, an arrow for each element, coloured by the program that moves it."""
    half = row // 2
    for i in range(n):
        partner = i + half if i % row < half else i - half
        color = PROGRAM_COLORS[i // block % len(PROGRAM_COLORS)]
        # in both, program i // block handles index i: of out in a gather, of x in a scatter
        source, target = (i, partner) if scatter else (partner, i)
        tip = FancyArrowPatch(
            (source, 1.95), (target, 0.55), arrowstyle="-|>", mutation_scale=7, color=color,
            linewidth=1.1, shrinkA=0, shrinkB=0,
        )  # fmt: skip
        ax.add_patch(tip)
        _box(ax, source, 2.4, str(source), color)
        _box(ax, target, 0.1, str(target), color)
    for y, name in ((2.4, "x"), (0.1, "out")):
        ax.text(-0.9, y, name, ha="right", va="center")
    side = "reads its block, writes to the partners" if scatter else (
        "reads from the partners, writes its block"
    )  # fmt: skip
    ax.set_title(f"{'scatter' if scatter else 'gather'}: a program {side}", loc="left")
    _frame(ax, n, -0.5, 3.0, left=-2.2)


def host_and_device(ax: Axes, host: float, device: float, calls: int, title: str) -> None:
    """A sketch of some calls in a row: when the host queues each, when the device runs it."""
    free = 0.0  # when the device has finished what came before
    for call in range(calls):
        queued = (call + 1) * host
        start = max(free, queued)
        free = start + device
        color = PROGRAM_COLORS[call % len(PROGRAM_COLORS)]
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
    figure, ax = plt.subplots(figsize=(7.0, 0.9 + 0.36 * len(times)))
    colors = [GREEN if name in ours else BLUE if name in pytorch else INK for name in times]
    bars_on(ax, times, colors, digits=lambda time: 0 if time > 100 else 1)
    ax.set(xlabel=f"{measurement.clock} time in microseconds (shorter is better)", title=title)
    cite(figure, measurement.source)
    plt.show()


def curves(host, device, sizes: list[int]) -> None:
    """Host and device time against the number of elements; beside it the larger of the two."""
    figure, (parts, larger) = plt.subplots(1, 2, figsize=(8.8, 3.7), sharey=True)
    low, high = float("inf"), 0.0
    for who, color, marker in (("PyTorch", BLUE, "o"), ("ours", GREEN, "^")):
        labels = [f"{who}, {n} elements" for n in sizes]
        on_host = [host[label].median_us for label in labels]
        on_device = [device[label].median_us for label in labels]
        style = {"color": color, "marker": marker, "markersize": 4}
        parts.plot(sizes, on_host, linestyle="--", label=f"{who}, host", **style)
        parts.plot(sizes, on_device, label=f"{who}, device", **style)
        both = [max(pair) for pair in zip(on_host, on_device, strict=True)]
        larger.plot(sizes, both, label=who, **style)
        low, high = min(low, *on_host, *on_device), max(high, *both)
    parts.set(ylabel="time of a call in microseconds", title="two clocks")
    larger.set(title="the larger of the two")
    for ax in (parts, larger):
        ax.set(xscale="log", yscale="log", xlabel="elements (fp32)")
        ticks = [1, 2, 4, 10, 20, 40, 100, 200, 400]
        ax.set_yticks(ticks, [str(tick) for tick in ticks])
        ax.set_yticks([], minor=True)
        ax.set_ylim(0.8 * low, 1.2 * high)
        ax.grid(True)
        ax.legend(fontsize=8.5, handlelength=3.5)
    cite(figure, host.source)
    plt.show()


def block_sweep(measurement, sizes: list[int], blocks: list[int]) -> None:
    """Share of the copy's speed against BLOCK: a panel for each size, a line for each num_warps."""
    figure, axes = plt.subplots(1, len(sizes), figsize=(8.8, 3.7), sharey=True)
    for ax, n in zip(axes, sizes, strict=True):
        copy = measurement[f"copy, {n} elements"].median_us
        for warps, (marker, size, color) in _MARKERS.items():
            labels = {b: f"{n} elements, block {b}, {warps} warps" for b in blocks}
            taken = {b: label for b, label in labels.items() if label in measurement.cases}
            share = [100 * copy / measurement[label].median_us for label in taken.values()]
            name = f"num_warps={warps}"
            ax.plot(list(taken), share, marker=marker, markersize=size, color=color, label=name)
        ax.axhline(100, color=INK, linewidth=1.0, linestyle=":")
        ax.set_xscale("log", base=2)
        ax.set_xticks(blocks[::2], [str(b) for b in blocks[::2]])
        ax.set(xlabel="BLOCK, elements of a program", title=f"{n / 2**20:.0f} Mi elements, fp32")
        ax.set_ylim(0)
        ax.grid(True)
    axes[0].set_ylabel("speed in % of the copy's")
    axes[0].legend(fontsize=8.5, loc="lower right")
    cite(figure, measurement.source)
    plt.show()


def _box(ax: Axes, x: float, y: float, label: str, color: str, masked: bool = False) -> None:
    shape = Rectangle(
        (x - 0.43, y - 0.43), 0.86, 0.86, fill=not masked, edgecolor=color, facecolor=color,
        linestyle="--" if masked else "-",
    )  # fmt: skip
    ax.add_patch(shape)
    ax.text(x, y, label, color=INK if masked else ON_COLOR, ha="center", va="center", fontsize=8.5)


def _frame(ax: Axes, count: int, bottom: float, top: float, left: float = -0.7) -> None:
    ax.set(xlim=(left, count - 0.3), ylim=(bottom, top), aspect="equal")
    ax.axis("off")
