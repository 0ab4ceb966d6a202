"""Drawings of notebook 08 and its detour: copies, the knee, rooflines, timelines, stalls."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from ..profiling.roofline import Machine
from . import style as draw
from .roofline import roof
from .style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, SMALL, WIDTH

_STALLS = {  # reason -> what a warp waits for
    "long_scoreboard": "memory (long scoreboard)",
    "lg_throttle": "room in the queue to memory (LG throttle)",
    "short_scoreboard": "shared memory, sines (short scoreboard)",
    "mio_throttle": "room in shared memory's queue (MIO throttle)",
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
    """The time that each wrong way shows over the true time, on a logarithmic axis."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.5 + 0.4 * len(factors)))
    colors = [ORANGE if factor > 1 else BLUE for factor in factors.values()]
    beyond = [factor - 1 for factor in factors.values()]
    bars = ax.barh(list(factors), beyond, 0.5, left=1, color=colors)
    labels = [f"{x:.2f}" if x < 10 else f"{x:.0f}" for x in factors.values()]
    ax.bar_label(bars, labels, padding=5)
    ax.axvline(1, color=INK, linewidth=1)
    ax.invert_yaxis()
    draw.log_ticks(ax, "x", [0.01, 0.1, 1, 10, 100, 1000])
    low, high = min(0.5, *factors.values()) / 4, 4 * max(2, *factors.values())
    ax.set(xlim=(low, high), xlabel="time shown / true time: below 1 looks too fast")
    fast = sum(factor < 1 for factor in factors.values())
    title = f"{fast} look too fast, {len(factors) - fast} too slow, and none raises an error"
    each = "; ".join(f"{name} {factor:.2g}" for name, factor in factors.items())
    words = f"For each mistake the time shown over the true time: {each}."
    draw.finish(figure, title, words, source)


def cold_and_warm(
    moved: list[float], cold: list[float], warm: list[float], limit: float, source: str
) -> None:
    """Bandwidth of copies with the L2 cache flushed before each, and over the same two buffers.

    Each copy moves `moved` bytes in `cold` or `warm` microseconds; `limit` is what HBM can do at
    best, in bytes a microsecond.
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    slow, fast = (np.array(moved) / times / 1e6 for times in (cold, warm))
    ax.semilogx(moved, fast, color=RED, marker="X", label="the same buffers, over and over")
    ax.semilogx(moved, slow, color=GREEN, marker="o", label="cache flushed before each")
    ax.axhline(limit / 1e6, color=INK, linestyle=":", linewidth=1)
    ax.text(moved[0], 1.02 * limit / 1e6, "data sheet of an H200's HBM", va="bottom")
    ax.set(xlabel="bytes read and written", ylabel="TB/s", ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=2)
    words = "Two curves of bandwidth over the bytes of a copy. With a warm cache it peaks at "
    words += f"{max(fast):.1f} TB/s, above the data sheet's {limit / 1e6:.1f}; with a flushed "
    words += "cache it rises and stays below."
    title = "A warm L2 cache makes small copies look faster than HBM can be"
    draw.finish(figure, title, words, source)


def knee(
    points: dict[str, tuple[list, list]], machine: Machine, conclusion: str, source: str
) -> None:
    """Time over bytes for several functions, and the time law.

    `points`: label -> (bytes, microseconds).
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.3))
    styles = zip((INK, ORANGE, PURPLE, GREEN), "sD^o", strict=True)
    hollow = {"markersize": 7, "fillstyle": "none", "markeredgewidth": 1.6}
    for (label, (moved, times)), (color, sign) in zip(points.items(), styles, strict=False):
        ax.loglog(moved, times, sign, color=color, label=label, **hollow)
    everything = [size for moved, _ in points.values() for size in moved]
    size = np.geomspace(min(everything), max(everything), 100)
    flat, rising = np.full_like(size, machine.start_us), size / machine.bytes_a_us
    ax.loglog(size, flat + rising, color=BLUE, zorder=1, label="time law")
    for line in (flat, rising):
        ax.loglog(size, line, color=BLUE, linewidth=1, linestyle=":", zorder=1)
    bend, low = machine.start_us * machine.bytes_a_us, machine.start_us / 3
    ax.axvline(bend, color=INK, linewidth=1, linestyle=":")
    ax.text(1.1 * bend, 1.1 * low, f"knee at {bend / 1e6:.0f} MB", va="bottom")
    ax.set(xlabel="bytes that must move", ylabel="device time in microseconds", ylim=(low, None))
    figure.legend(loc="outside lower center", ncols=1 + len(points))
    words = "Device time over bytes, on logarithmic axes. The law is flat, bends at the knee at "
    words += f"{bend / 1e6:.0f} MB and rises after it."
    draw.finish(figure, conclusion, words, source)


def fingerprints(found: dict[str, dict[str, float]], changes: Sequence[str], source: str) -> None:
    """For each limit and each change: how many times as long the call takes after it.

    A change that moves the time by a quarter or more is outlined.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 1.7 + 0.5 * len(found)))
    ratios = np.array([[of_one[change] for change in changes] for of_one in found.values()])
    ax.imshow(np.log2(ratios), cmap=draw.DIVERGING, vmin=-5, vmax=5, aspect="auto")
    for (row, column), ratio in np.ndenumerate(ratios):
        moves = abs(np.log2(ratio)) > np.log2(1.25)
        look = {"color": draw.ON_COLOR, "fontsize": 11, "weight": "bold" if moves else "normal"}
        draw.write(ax, column, row, f"{ratio:.2f}", **look)
        if moves:
            draw.frame(ax, column, row, 0.94, 0.9, linewidth=1.8)
    ax.set_xticks(range(len(changes)), [change.replace(" ", "\n", 1) for change in changes])
    ax.set_yticks(range(len(found)), list(found))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    each = "; ".join(f"{name} {draw.spoken(row, '', 2)}" for name, row in found.items())
    title = "Each limit has its own fingerprint: the time after a change, over the time before"
    draw.finish(figure, title, f"A table of ratios. {each}.", source)


def roofline(points: dict[str, tuple[float, float]], machine: Machine, source: str) -> None:
    """Kernels under the roof: label -> (instructions a byte, instructions a microsecond).

    Labels that end in "executed" are drawn filled: their instructions are those that were counted,
    not those that the rotation needs.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 4.8))
    roof(ax, machine)
    looks = {"eager": (ORANGE, "s"), "naive": (RED, "D"), "ours": (GREEN, "o")}
    for label, (intensity, speed) in points.items():
        color, sign = looks.get(label.split(",")[0], (INK, "o"))
        fill = "full" if label.endswith("executed") else "none"
        mark = {"markersize": 9, "zorder": 3, "markeredgewidth": 1.8, "fillstyle": fill}
        ax.plot(intensity, speed / 1e6, sign, color=color, label=label, **mark)
    slowest = min(speed for _, speed in points.values()) / 1e6
    low, high = min(0.05, slowest / 3), max(80, 2.2e-6 * machine.instructions_a_us)
    ax.set(xlim=(0.03, max(300, 10 * machine.ridge)), ylim=(low, high))
    ax.text(machine.ridge / 1.1, 1.3 * low, "← bytes decide", ha="right")
    ax.text(1.1 * machine.ridge, 1.3 * low, "instructions decide →")
    ax.text(1.1 * machine.ridge, high, "ridge", va="top")
    figure.legend(loc="outside lower center", ncols=4, fontsize=10)
    each = ", ".join(f"{label} {speed / 1e6:.2g}" for label, (_, speed) in points.items())
    words = f"A roofline with its ridge at {machine.ridge:.1f} instructions a byte. The kernels' "
    words += f"speeds in 10\u00b9\u00b2 instructions/s: {each}."
    title = "Naive is bound by its instructions, ours by its bytes, eager by neither"
    draw.finish(figure, title, words, source)


def measured_roof(
    counts: list[int], times: list[float], machine: Machine, elements: int, source: str
) -> None:
    """Time of a kernel with more and more instructions: flat, then rising."""
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    shown = {k: us for k, us in zip(counts, times, strict=True) if k}
    line, memory = np.geomspace(min(shown), max(shown), 50), min(times)
    compute = machine.start_us + line * elements / machine.instructions_a_us
    ax.loglog(line, np.full_like(line, memory), ":", color=INK, label="K = 0: bytes alone")
    ax.loglog(line, compute, "--", color=ORANGE, label="instructions alone, at P")
    ax.loglog(list(shown), list(shown.values()), "o", color=BLUE, label="measured")
    draw.log_ticks(ax, "x", list(shown))
    ax.set(xlabel="K, fused multiply-adds an element", ylabel="microseconds")
    ax.set_ylim(memory / 3, None)
    figure.legend(loc="outside lower center", ncols=3)
    measured = ", ".join(f"K = {k}: {us:.0f} \u00b5s" for k, us in shown.items())
    words = "Time over K, the fused multiply-adds of an element: first on the line of bytes alone, "
    words += f"then on that of instructions alone. {measured}."
    draw.finish(figure, "Free at first, then instructions decide", words, source)


def timeline(rows: dict[str, dict[str, list]], source: str) -> None:
    """Calls under the profiler, one below the other on one axis: host above, device below.

    Each begins where its first kernel does, so what the profiler needs for its own start is to the
    left of the axis; what it needs for its end is to the right.

    `rows`: label -> what `timeline.profile_call` returned.
    """
    figure, axes = plt.subplots(
        len(rows), 1, figsize=(WIDTH, 1.1 + 1.35 * len(rows)), sharex=True, squeeze=False
    )
    lanes, ends = {"kernels": ORANGE, "launches": GREY, "operators": BLUE}, []
    for ax, (label, call) in zip(axes[:, 0], rows.items(), strict=True):
        begin = call["kernels"][0][1]
        ends += [start + duration - begin for _, start, duration in call["kernels"]]
        for lane, (kind, color) in enumerate(lanes.items()):
            starts = [start - begin for _, start, _ in call[kind]]
            # a long one is drawn a little shorter, so that one sees where its neighbor begins
            lengths = [length - 3 * (length > 30) for *_, length in call[kind]]
            ax.barh([lane] * len(starts), lengths, 0.72, starts, color=color, edgecolor=color)
        ax.set_yticks([0, 1, 2], ["device: kernels", "host: launches", "host: operators"])
        ax.set(ylim=(-0.6, 2.6), title=label)
    span = max(ends)
    axes[-1, 0].set(xlabel="microseconds since the first kernel began")
    axes[-1, 0].set(xlim=(-0.1 * span, 1.05 * span))
    counts = ", ".join(f"{label} {len(call['kernels'])}" for label, call in rows.items())
    words = "Timelines of the host's operators and launches and of the device's kernels. Number of "
    title = "Large: the host is ahead. Small: the device waits for it."
    draw.finish(figure, title, f"{words}kernels: {counts}.", source)


def stalls(reports: dict[str, dict[str, float]], source: str, most: int = 6) -> None:
    """What warps wait for: cycles in each state for each instruction issued."""
    figure, axes = plt.subplots(1, len(reports), figsize=(WIDTH, 4.0), squeeze=False)
    longest = max(max(reasons.values()) for reasons in reports.values())
    waits = {}
    for ax, (name, reasons), color in zip(axes[0], reports.items(), (RED, GREEN), strict=True):
        shown = list(reasons)[:most]
        values = [reasons[reason] for reason in shown]
        labels = [f"{value:.1f}" for value in values]
        draw.numbered_bars(ax, range(len(shown)), values, color, labels, fontsize=SMALL)
        names = [_STALLS.get(reason, reason).replace(" (", "\n(") for reason in shown]
        ax.set_yticks(range(len(shown)), names, fontsize=SMALL)
        ax.set(xlim=(0, 1.2 * longest), title=name, xlabel="cycles per issue")
        waits[name] = values[0]
    words = "Bars of the cycles that a warp spends in each state per instruction. The longest: "
    words += f"{draw.spoken(waits, 'cycles', 1)}."
    title = "Naive waits for its next instructions, ours for memory"
    draw.finish(figure, title, words, source)
