"""Drawings of notebook 08 and its detour: copies, the knee, rooflines, timelines, stalls."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from ..profiling.roofline import Machine
from .labels import Place, along, around, beside
from .roofline import roof
from .style import (
    BLUE,
    DIVERGING,
    GREEN,
    GREY,
    INK,
    ON_COLOR,
    ORANGE,
    PLATE,
    PURPLE,
    RED,
    SMALL,
    WIDTH,
    finish,
    inked,
    spoken,
)

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
    for place, factor in enumerate(factors.values()):
        color = ORANGE if factor > 1 else BLUE
        ax.plot([1, factor], [place, place], color=color, linewidth=3, solid_capstyle="round")
        ax.plot(factor, place, "o", color=color, markersize=8)
        ax.annotate(
            f"{factor:.2f}" if factor < 10 else f"{factor:.0f}", (factor, place),
            xytext=(9 if factor > 1 else -9, 0), textcoords="offset points", va="center",
            ha="left" if factor > 1 else "right",
        )  # fmt: skip
    ax.axvline(1, color=INK, linewidth=1)
    ax.set_xscale("log")
    ax.set_yticks(range(len(factors)), list(factors))
    ax.set_ylim(len(factors) - 0.4, -0.6)
    low, high = min(0.5, *factors.values()) / 4, 4 * max(2, *factors.values())
    ticks = [tick for tick in (0.01, 0.1, 1, 10, 100, 1000) if low < tick < high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlim=(low, high), xlabel="time shown / true time: below 1 looks too fast")
    fast = sum(factor < 1 for factor in factors.values())
    each = "; ".join(f"{name} {factor:.2g}" for name, factor in factors.items())
    finish(
        figure,
        f"{fast} look too fast, {len(factors) - fast} too slow, and none raises an error",
        f"For each mistake the time shown over the true time: {each}.",
        source,
    )


def cold_and_warm(
    moved: list[float], cold: list[float], warm: list[float], limit: float, source: str
) -> None:
    """Bandwidth of copies with the L2 cache flushed before each, and over the same two buffers.

    Args:
        moved: bytes that each copy moves.
        cold, warm: microseconds.
        limit: bytes a microsecond that HBM can move at best.
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    for times, color, sign, label in (
        (warm, RED, "X", "the same buffers, over and over"),
        (cold, GREEN, "o", "cache flushed before each"),
    ):
        speed = [size / time / 1e6 for size, time in zip(moved, times, strict=True)]
        ax.semilogx(moved, speed, color=color, marker=sign, label=label)
    ax.axhline(limit / 1e6, color=INK, linestyle=":", linewidth=1)
    ax.text(moved[0], 1.02 * limit / 1e6, "data sheet of an H200's HBM", va="bottom")
    ax.set(xlabel="bytes read and written", ylabel="TB/s", ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=2)
    best = max(size / time / 1e6 for size, time in zip(moved, warm, strict=True))
    finish(
        figure,
        "A warm L2 cache makes small copies look faster than HBM can be",
        f"Two curves of bandwidth over the bytes of a copy. With a warm cache it peaks at "
        f"{best:.1f} TB/s, above the data sheet's {limit / 1e6:.1f}; with a flushed cache it "
        "rises and stays below.",
        source,
    )


def knee(
    points: dict[str, tuple[list, list]], machine: Machine, conclusion: str, source: str
) -> None:
    """Time over bytes for several functions, and the time law.

    `points`: label -> (bytes, microseconds).
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.3))
    styles = zip((INK, ORANGE, PURPLE, GREEN), "sD^o", strict=True)
    for (label, (moved, times)), (color, sign) in zip(points.items(), styles, strict=False):
        ax.loglog(
            moved, times, sign, color=color, label=label, markersize=7, fillstyle="none",
            markeredgewidth=1.6,
        )  # fmt: skip
    everything = [size for moved, _ in points.values() for size in moved]
    size = np.geomspace(min(everything), max(everything), 100)
    law = machine.start_us + size / machine.bytes_a_us
    ax.loglog(size, law, color=BLUE, zorder=1, label="time law")
    for line in (np.full_like(size, machine.start_us), size / machine.bytes_a_us):
        ax.loglog(size, line, color=BLUE, linewidth=1, linestyle=":", zorder=1)
    bend = machine.start_us * machine.bytes_a_us
    ax.axvline(bend, color=INK, linewidth=1, linestyle=":")
    low = machine.start_us / 3
    ax.text(1.1 * bend, 1.1 * low, f"knee at {bend / 1e6:.0f} MB", va="bottom")
    ax.set(xlabel="bytes that must move", ylabel="device time in microseconds", ylim=(low, None))
    figure.legend(loc="outside lower center", ncols=1 + len(points))
    finish(
        figure,
        conclusion,
        "Device time over bytes, on logarithmic axes. The law is flat, bends at the knee at "
        f"{bend / 1e6:.0f} MB and rises after it.",
        source,
    )


def fingerprints(found: dict[str, dict[str, float]], changes: Sequence[str], source: str) -> None:
    """For each limit and each change: how many times as long the call takes after it.

    A change that moves the time by a quarter or more is outlined.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 1.7 + 0.5 * len(found)))
    ratios = np.array([[of_one[change] for change in changes] for of_one in found.values()])
    ax.imshow(np.log2(ratios), cmap=DIVERGING, vmin=-5, vmax=5, aspect="auto")
    for (row, column), ratio in np.ndenumerate(ratios):
        moves = abs(np.log2(ratio)) > np.log2(1.25)
        ax.text(
            column, row, f"{ratio:.2f}", ha="center", va="center", color=ON_COLOR,
            fontweight="bold" if moves else "normal",
        )  # fmt: skip
        if moves:
            box = Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, fill=False, lw=1.8, ec=INK)
            ax.add_patch(box)
    ax.set_xticks(range(len(changes)), [change.replace(" ", "\n", 1) for change in changes])
    ax.set_yticks(range(len(found)), list(found))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    each = "; ".join(f"{name} {spoken(row, '', 2)}" for name, row in found.items())
    finish(
        figure,
        "Each limit has its own fingerprint: the time after a change, over the time before",
        f"A table of ratios. {each}.",
        source,
    )


def roofline(points: dict[str, tuple[float, float]], machine: Machine, source: str) -> None:
    """Kernels under the roof: label -> (instructions a byte, instructions a microsecond).

    Labels that end in "executed" are drawn filled: their instructions are those that were counted,
    not those that the rotation needs.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 4.8))
    roof(ax, machine)
    colors = {"eager": ORANGE, "naive": RED, "ours": GREEN}
    for label, (intensity, speed) in points.items():
        color = next((c for name, c in colors.items() if label.startswith(name)), INK)
        executed = label.endswith("executed")
        ax.plot(
            intensity, speed / 1e6, "o", color=color, markersize=9, zorder=3, markeredgewidth=1.8,
            fillstyle="full" if executed else "none",
        )  # fmt: skip
        beside(ax, label, around((intensity, speed / 1e6)), color=inked(color))
    slowest = min(speed for _, speed in points.values()) / 1e6
    ax.set(xlim=(0.03, max(300, 10 * machine.ridge)))
    ax.set(ylim=(min(0.05, slowest / 3), max(80, 2.2e-6 * machine.instructions_a_us)))
    _name_the_roof(ax, machine)
    each = ", ".join(f"{label} {speed / 1e6:.2g}" for label, (_, speed) in points.items())
    finish(
        figure,
        "Naive is bound by its instructions, ours by its bytes, eager by neither",
        f"A roofline with its ridge at {machine.ridge:.1f} instructions a byte. The kernels' "
        f"speeds in 10\u00b9\u00b2 instructions/s: {each}.",
        source,
    )


def _name_the_roof(ax: Axes, machine: Machine) -> None:
    """Say what decides along each of both lines, and which line is the ridge."""
    (left, right), ridge = ax.get_xlim(), machine.ridge
    slope = [(x, machine.allowed(x) / 1e6) for x in np.geomspace(left, ridge, 11)[1:-1]]
    slope.sort(key=lambda point: abs(np.log(point[0] ** 2 / left / ridge)))  # from its middle
    above = [Place(point, (-6, 2), "right", "bottom") for point in slope]
    below = [Place(point, (6, -2), "left", "top") for point in slope]
    beside(ax, "bytes decide", [above, below], color=inked(BLUE))
    flat = [(1.1 * x, machine.instructions_a_us / 1e6) for x in np.geomspace(ridge, right, 7)]
    beside(ax, "instructions decide", along(flat), color=inked(BLUE))
    upright = [(ridge, share) for share in np.linspace(0.05, 0.95, 10)]
    to_the_right = [Place(point, (7, 0)) for point in upright]
    to_the_left = [Place(point, (-7, 0), "right") for point in upright]
    beside(ax, "ridge", [to_the_right, to_the_left], xycoords=ax.get_xaxis_transform())


def measured_roof(
    counts: list[int], times: list[float], machine: Machine, elements: int, source: str
) -> None:
    """Time of a kernel with more and more instructions: flat, then rising."""
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    shown = [pair for pair in zip(counts, times, strict=True) if pair[0]]
    line = np.geomspace(shown[0][0], shown[-1][0], 50)
    memory, compute = min(times), machine.start_us + line * elements / machine.instructions_a_us
    ax.loglog(line, np.full_like(line, memory), ":", color=INK, label="K = 0: bytes alone")
    ax.loglog(line, compute, "--", color=ORANGE, label="instructions alone, at P")
    ax.loglog(*zip(*shown, strict=True), "o", color=BLUE, label="measured")
    ax.set_xscale("log", base=2)
    ax.set_xticks([k for k, _ in shown], [str(k) for k, _ in shown])
    ax.set(xlabel="K, fused multiply-adds an element", ylabel="microseconds")
    ax.set_ylim(memory / 3, None)
    figure.legend(loc="outside lower center", ncols=3)
    measured = ", ".join(f"K = {k}: {us:.0f} \u00b5s" for k, us in shown)
    finish(
        figure,
        "Free at first, then instructions decide",
        f"Time over K, the fused multiply-adds of an element: first on the line of bytes alone, "
        f"then on that of instructions alone. {measured}.",
        source,
    )


def timeline(rows: dict[str, dict[str, list]], source: str) -> None:
    """Calls under the profiler, one below the other on one axis: host above, device below.

    Each begins where its first kernel does, so what the profiler needs for its own start is to the
    left of the axis, or pale.

    `rows`: label -> what `timeline.profile_call` returned.
    """
    span = 1.05 * max(_end(call) - call["kernels"][0][1] for call in rows.values())
    figure, axes = plt.subplots(
        len(rows), 1, figsize=(WIDTH, 1.1 + 1.35 * len(rows)), sharex=True, squeeze=False
    )
    for ax, (label, call) in zip(axes[:, 0], rows.items(), strict=True):
        _lanes(ax, call, span)
        ax.set_title(label, loc="left")
    axes[-1, 0].set(xlabel="microseconds since the first kernel began", xlim=(-0.1 * span, span))
    counts = {label: len(call["kernels"]) for label, call in rows.items()}
    finish(
        figure,
        "Large: the host is ahead. Small: the device waits for it.",
        "Timelines of the host's operators and launches and of the device's kernels. Number of "
        f"kernels: {', '.join(f'{label} {count}' for label, count in counts.items())}.",
        source,
    )


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
    lanes = (("operators", 2, BLUE), ("launches", 1, GREY), ("kernels", 0, ORANGE))
    begin = call["kernels"][0][1]
    for kind, height, color in lanes:
        spans = [_shown(kind, row, begin) for row in call[kind]]
        faces = [to_rgba(color, 0.25 if _of_the_profiler(kind, row) else 1) for row in call[kind]]
        edges = faces
        if kind == "kernels":  # an edge parts neighbors, but would hide what is narrow
            edges = [PLATE if wide > span / 50 else color for _, wide in spans]
        ax.broken_barh(spans, (height - 0.36, 0.72), facecolors=faces, edgecolors=edges, lw=0.8)
    ax.set_yticks([2, 1, 0], ["host: operators", "host: launches", "device: kernels"])
    ax.set_ylim(-0.6, 2.6)


def stalls(reports: dict[str, dict[str, float]], source: str, most: int = 6) -> None:
    """What warps wait for: cycles in each state for each instruction issued."""
    figure, axes = plt.subplots(1, len(reports), figsize=(WIDTH, 4.0), squeeze=False)
    longest = max(max(reasons.values()) for reasons in reports.values())
    for ax, (name, reasons), color in zip(axes[0], reports.items(), (RED, GREEN), strict=True):
        shown = list(reasons.items())[:most]
        labels = [_STALLS.get(reason, reason).replace(" (", "\n(") for reason, _ in shown]
        values = [value for _, value in shown]
        ax.barh(range(len(shown)), values, color=color, height=0.66)
        for place, value in enumerate(values):
            ax.annotate(
                f"{value:.1f}", (value, place), xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=SMALL,
            )  # fmt: skip
        ax.set_yticks(range(len(shown)), labels, fontsize=SMALL)
        ax.invert_yaxis()
        ax.set(xlim=(0, 1.2 * longest), title=name)
        ax.set_xlabel("cycles per issue")
    first = {name: next(iter(reasons)) for name, reasons in reports.items()}
    longest_waits = {name: reports[name][reason] for name, reason in first.items()}
    finish(
        figure,
        "Naive waits for its next instructions, ours for memory",
        "Bars of the cycles that a warp spends in each state per instruction. The longest: "
        f"{spoken(longest_waits, 'cycles', 1)}.",
        source,
    )
