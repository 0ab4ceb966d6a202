"""Drawings of notebook 08: two clocks, six mistakes, the knee, the roofline, timelines, reports."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from ..profiling.roofline import Machine
from .roofline import roof
from .style import BLUE, GREEN, INK, ORANGE, PURPLE, RED, cite

_STALLS = {  # reason -> what a warp waits for
    "long_scoreboard": "memory (long scoreboard)",
    "lg_throttle": "room in the queue to memory (LG throttle)",
    "short_scoreboard": "shared memory, sines (short scoreboard)",
    "mio_throttle": "room in the queue to these (MIO throttle)",
    "math_pipe_throttle": "its arithmetic unit (math pipe throttle)",
    "wait": "a fixed number of cycles (wait)",
    "not_selected": "its turn: another warp was chosen (not selected)",
    "selected": "nothing: it was chosen (selected)",
    "branch_resolving": "a branch (branch resolving)",
    "no_instruction": "its next instructions (no instruction)",
    "barrier": "other warps (barrier)",
    "drain": "its last stores (drain)",
}


def mistakes(factors: dict[str, float], source: str) -> None:
    """How many times too slow (right) or too fast (left) each measurement made things look."""
    figure, ax = plt.subplots(figsize=(8.6, 0.9 + 0.4 * len(factors)))
    for place, factor in enumerate(factors.values()):
        color = ORANGE if factor > 1 else BLUE
        ax.plot([1, factor], [place, place], color=color, linewidth=3, solid_capstyle="round")
        ax.plot(factor, place, "o", color=color, markersize=8)
        shown = factor if factor > 1 else 1 / factor
        ax.annotate(
            f"{shown:.3g} times", (factor, place), xytext=(8 if factor > 1 else -8, 0),
            textcoords="offset points", va="center", ha="left" if factor > 1 else "right",
            fontsize=9,
        )  # fmt: skip
    ax.axvline(1, color=INK, linewidth=1)
    ax.set_xscale("log")
    ax.set_yticks(range(len(factors)), list(factors))
    ax.invert_yaxis()
    low, high = min(0.5, *factors.values()) / 8, 8 * max(2, *factors.values())
    ticks = [tick for tick in (0.01, 0.1, 1, 10, 100, 1000) if low < tick < high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set(xlim=(low, high), xlabel="time shown / true time")
    for place, side, words in (
        (0.9, "right", "looks too fast \u2190"),
        (1.1, "left", "\u2192 looks too slow"),
    ):
        ax.text(place, 1.0, words, ha=side, va="bottom", transform=ax.get_xaxis_transform())
    cite(figure, source)
    plt.show()


def cold_and_warm(
    moved: list[float], cold: list[float], warm: list[float], limit: float, source: str
) -> None:
    """Bandwidth of copies with the cache flushed before each, and over the same two buffers.

    Args:
        moved: bytes that each copy moves.
        cold, warm: microseconds.
        limit: bytes a microsecond that memory can move at best.
    """
    figure, ax = plt.subplots(figsize=(7.4, 3.4))
    for times, color, sign, label in (
        (warm, RED, "X", "the same buffers, over and over"),
        (cold, GREEN, "o", "cache flushed before each"),
    ):
        speed = [size / time / 1e6 for size, time in zip(moved, times, strict=True)]
        ax.semilogx(moved, speed, color=color, marker=sign, label=label)
    ax.axhline(limit / 1e6, color=INK, linestyle=":", linewidth=1)
    ax.text(moved[0], limit / 1e6, "data sheet of an H200's memory", va="bottom", fontsize=9)
    ax.set(xlabel="bytes read and written", ylabel="terabytes a second")
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
    ax.legend(loc="upper left")
    cite(figure, source)
    plt.show()


def knee(points: dict[str, tuple[list, list]], machine: Machine, source: str) -> None:
    """Time over bytes for several functions, and the two lines that bound a copy from below.

    `points`: label -> (bytes, microseconds).
    """
    figure, ax = plt.subplots(figsize=(7.6, 3.8))
    styles = zip((INK, ORANGE, PURPLE, GREEN), "sD^o", strict=True)
    for (label, (moved, times)), (color, sign) in zip(points.items(), styles, strict=False):
        ax.loglog(
            moved, times, sign, color=color, label=label, markersize=7, fillstyle="none",
            markeredgewidth=1.6,
        )  # fmt: skip
    everything = [size for moved, _ in points.values() for size in moved]
    size = np.geomspace(min(everything), max(everything), 100)
    ax.loglog(size, machine.start_us + size / machine.bytes_a_us, color=BLUE, zorder=1)
    for line in (np.full_like(size, machine.start_us), size / machine.bytes_a_us):
        ax.loglog(size, line, color=BLUE, linewidth=1, linestyle=":", zorder=1)
    bend = machine.start_us * machine.bytes_a_us
    ax.axvline(bend, color=INK, linewidth=1, linestyle=":")
    low = machine.start_us / 3
    ax.text(1.1 * bend, low, f" knee at {bend / 1e6:.0f} MB", va="bottom", fontsize=9)
    ax.set(xlabel="bytes that must move", ylabel="device time in microseconds", ylim=(low, None))
    ax.legend(loc="upper left")
    cite(figure, source)
    plt.show()


def roofline(points: dict[str, tuple[float, float]], machine: Machine, source: str) -> None:
    """Kernels under the roof: label -> (operations a byte, operations a microsecond).

    Labels that end in "executed" are drawn filled: their operations are those executed, not those
    that the rotation needs.
    """
    figure, ax = plt.subplots(figsize=(8.2, 4.2))
    roof(ax, machine)
    colors = {"eager": ORANGE, "torch.compile": PURPLE, "naive": RED, "our kernel": GREEN}
    for label, (intensity, speed) in points.items():
        color = next((c for name, c in colors.items() if label.startswith(name)), INK)
        filled = "full" if label.endswith("executed") else "none"
        ax.plot(
            intensity, speed / 1e6, "o", color=color, markersize=8, fillstyle=filled,
            markeredgewidth=1.8, zorder=3,
        )  # fmt: skip
        side = {"copy": (-9, -3), "torch.compile": (9, 1), "naive": (9, -9)}
        side |= {"our kernel, executed": (-9, -3), "naive, executed": (4, -15)}
        offset = side.get(label, (9, -3))
        ax.annotate(
            label, (intensity, speed / 1e6), xytext=offset, textcoords="offset points",
            fontsize=9, color=color, ha="right" if offset[0] < 0 else "left",
        )  # fmt: skip
    ax.set(xlim=(0.05, 200), ylim=(0.05, 60))
    cite(figure, source)
    plt.show()


def measured_roof(
    operations: list[int], times: list[float], machine: Machine, elements: int, source: str
) -> None:
    """Time of a kernel with more and more arithmetic: flat, then rising."""
    figure, ax = plt.subplots(figsize=(7.4, 3.2))
    shown = [pair for pair in zip(operations, times, strict=True) if pair[0]]
    line = np.geomspace(shown[0][0], shown[-1][0], 50)
    memory, arithmetic = min(times), machine.start_us + line * elements / machine.operations_a_us
    ax.loglog(line, np.full_like(line, memory), ":", color=INK, label="K = 0: memory alone")
    ax.loglog(line, arithmetic, "--", color=ORANGE, label="arithmetic alone, at the rate P")
    ax.loglog(*zip(*shown, strict=True), "o", color=BLUE, label="measured")
    ax.set_xscale("log", base=2)
    ax.set_xticks([k for k, _ in shown], [str(k) for k, _ in shown])
    ax.set(xlabel="K, fused products and sums an element", ylabel="microseconds")
    ax.set_ylim(memory / 3, None)
    ax.legend(loc="upper left")
    cite(figure, source)
    plt.show()


def timeline(rows: dict[str, dict[str, list]], source: str) -> None:
    """Calls under the profiler, one below the other on one axis: host above, device below.

    Each begins where its first kernel does, so what the profiler needs for its own start lies left
    of the axis, or is pale.

    `rows`: label -> what `timeline.profile_call` returned.
    """
    span = 1.05 * max(_end(call) - call["kernels"][0][1] for call in rows.values())
    figure, axes = plt.subplots(
        len(rows), 1, figsize=(9.0, 0.5 + 1.35 * len(rows)), sharex=True, squeeze=False
    )
    for ax, (label, call) in zip(axes[:, 0], rows.items(), strict=True):
        _lanes(ax, call, span)
        ax.set_title(label, loc="left")
    axes[-1, 0].set(xlabel="microseconds since the first kernel began", xlim=(-0.1 * span, span))
    cite(figure, source)
    plt.show()


def _end(call: dict[str, list]) -> float:
    """When both sides are done, but for what the profiler itself takes."""
    spans = [row for kind in call for row in call[kind] if not _of_the_profiler(kind, row)]
    return max(start + duration for _, start, duration in spans)


def _of_the_profiler(kind: str, row: list) -> bool:
    """No launch and no operator takes that long by itself."""
    return kind != "kernels" and row[2] > 300


def _shown(kind: str, row: list, begin: float) -> tuple[float, float]:
    """Start and duration on the axis. What the profiler takes ends there: a kernel runs already."""
    start, duration = row[1] - begin, row[2]
    if _of_the_profiler(kind, row) and start < 0:
        duration = min(duration, -start)
    return start, duration


def _lanes(ax: Axes, call: dict[str, list], span: float) -> None:
    lanes = (("operators", 2, BLUE), ("launches", 1, INK), ("kernels", 0, ORANGE))
    begin = call["kernels"][0][1]
    for kind, height, color in lanes:
        spans = [_shown(kind, row, begin) for row in call[kind]]
        faces = [to_rgba(color, 0.25 if _of_the_profiler(kind, row) else 1) for row in call[kind]]
        edges = faces
        if kind == "kernels":  # an edge parts neighbours, but would hide what is narrow
            edges = ["white" if wide > span / 50 else color for _, wide in spans]
        ax.broken_barh(spans, (height - 0.36, 0.72), facecolors=faces, edgecolors=edges, lw=0.8)
    ax.set_yticks([2, 1, 0], ["host: operators", "host: launches", "device: kernels"])
    ax.set_ylim(-0.6, 2.6)


def utilisation(reports: dict[str, dict[str, float]], source: str) -> None:
    """Per cent of what is possible: name of the report -> what -> per cent."""
    figure, ax = plt.subplots(figsize=(7.6, 2.6))
    whats = list(next(iter(reports.values())))
    colors = (RED, GREEN, PURPLE)
    for number, (name, percents) in enumerate(reports.items()):
        places = np.arange(len(whats)) + (number - (len(reports) - 1) / 2) * 0.36
        values = [percents[what] for what in whats]
        ax.barh(places, values, height=0.32, color=colors[number], label=name)
        for place, value in zip(places, values, strict=True):
            ax.text(value + 1, place, f"{value:.0f}", va="center", fontsize=9)
    ax.set_yticks(range(len(whats)), whats)
    ax.invert_yaxis()
    ax.set(xlim=(0, 112), xlabel="% of the most that is possible")
    ax.legend(loc="lower right")
    cite(figure, source)
    plt.show()


def stalls(reports: dict[str, dict[str, float]], source: str, most: int = 6) -> None:
    """What warps wait for: warps in that state for each instruction issued."""
    figure, axes = plt.subplots(1, len(reports), figsize=(9.6, 3.0), squeeze=False)
    longest = max(max(reasons.values()) for reasons in reports.values())
    for ax, (name, reasons), color in zip(axes[0], reports.items(), (RED, GREEN), strict=True):
        shown = list(reasons.items())[:most]
        labels = [_STALLS.get(reason, reason).replace(" (", "\n(") for reason, _ in shown]
        values = [value for _, value in shown]
        ax.barh(range(len(shown)), values, color=color, height=0.66)
        for place, value in enumerate(values):
            ax.text(value, place, f" {value:.1f}", va="center", fontsize=9)
        ax.set_yticks(range(len(shown)), labels, fontsize=8)
        ax.invert_yaxis()
        ax.set(xlim=(0, 1.15 * longest), title=name)
        ax.set_xlabel("cycles a warp waits, each instruction")
    cite(figure, source)
    plt.show()
