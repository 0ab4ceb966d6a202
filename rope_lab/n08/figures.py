"""Drawings of notebook 08 and its detour: copies, roofs, fingerprints, wrong ways to time."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, HATCHED, INK, ON_COLOR, ORANGE, RED, WIDTH
from ..profiling.roofline import Machine, headline
from ..records import Measurement


def mistakes(factors: dict[str, float], source: str) -> None:
    """How far off each wrong way is, sorted: too fast to the left, too slow to the right."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.7 + 0.4 * len(factors)))
    most = {"fast": 1.0, "slow": 1.0}
    for name, factor in sorted(factors.items(), key=lambda item: item[1]):
        way, times = ("slow", factor) if factor > 1 else ("fast", 1 / factor)
        most[way] = max(most[way], times)
        look = {"color": ORANGE} if way == "slow" else {"color": BLUE, **HATCHED}
        ax.barh(name, factor - 1, 0.55, left=1, **look)
        words = f"{_in_words(times)} times too {way}"
        at = max(factor, 1), name  # right of the bar, where there is room for words
        ax.annotate(words, at, xytext=(6, 0), textcoords="offset points", va="center")
    ax.axvline(1, color=INK, linewidth=1)
    ax.invert_yaxis()
    ax.set(xlim=(0.3, 5000), xlabel="time shown / true time")
    draw.log_ticks(ax, "x", [0.5, 1, 2, 10, 100, 1000])
    fast, slow = (_in_words(times) for times in most.values())
    title = f"These timings are up to {fast} times too fast, or up to {slow} times too slow"
    draw.finish(figure, title, source)


def _in_words(times: float) -> str:
    return f"{times:.{0 if times > 10 else 1}f}"


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
    draw.finish(figure, "A warm L2 cache makes small copies look faster than HBM can be", source)


def knee(moved: list[float], times: list[float], machine: Machine, source: str) -> None:
    """Time of copies over the bytes that they move, and the time law."""
    figure, ax = plt.subplots(figsize=(8.0, 4.3))
    hollow = {"markersize": 7, "fillstyle": "none", "markeredgewidth": 1.6}
    ax.loglog(moved, times, "s", color=INK, label="a copy, L2 empty", **hollow)
    size = np.geomspace(min(moved), max(moved), 100)
    law = machine.start_us + size / machine.bytes_a_us
    ax.loglog(size, law, color=BLUE, zorder=1, label="time law")
    bend, low = machine.start_us * machine.bytes_a_us, machine.start_us / 3
    ax.axvline(bend, color=INK, linewidth=1, linestyle=":")
    ax.text(1.1 * bend, 1.1 * low, f"knee at {bend / 1e6:.0f} MB", va="bottom")
    ax.set(xlabel="bytes that must move", ylabel="device time in microseconds", ylim=(low, None))
    figure.legend(loc="outside lower center", ncols=2)
    title = "Flat at first, then each byte counts: two numbers predict a copy's time"
    draw.finish(figure, title, source)


def roofline(
    machine: Machine, measured: Measurement, counts: dict[str, int], instructions: int, dtype: str
) -> None:
    """The most instructions per second of a GPU, over instructions per byte.

    `counts`: case of `measured`, which had the headline in bf16 -> its instructions an element. A
    kernel with `instructions` in `dtype` is shown on the roof.
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.3))
    ridge = machine.instructions_a_us / machine.bytes_a_us
    intensity = np.sort([ridge, *np.geomspace(0.4, 60)])
    ax.loglog(intensity, _roof(machine, intensity), color=INK, label="the roof", zorder=1)
    ax.axvline(ridge, color=INK, linewidth=1, linestyle=":", zorder=1)
    ax.text(1.06 * ridge, 38, f"ridge at {ridge:.1f}", va="bottom")
    moved, executed = headline(instructions, dtype)
    at, label = executed / moved, f"{instructions} in {dtype}: up to the roof at best"
    # a line from below, because a mark on the roof would hide one that is measured there
    ax.vlines(at, 1, _roof(machine, at), color=BLUE, linewidth=5, label=label, zorder=2)
    hollow = {"markersize": 8, "fillstyle": "none", "markeredgewidth": 1.6, "zorder": 3}
    for (case, count), (color, sign) in zip(counts.items(), ((INK, "s"), (RED, "D")), strict=False):
        moved, executed = headline(count, "bf16")
        rate = executed / measured[case].median_us / 1e6
        label = f"{case}: {count} in bf16, measured"
        ax.loglog(executed / moved, rate, sign, color=color, label=label, **hollow)
    draw.log_ticks(ax, "x", [0.5, 1, 2, 4, 8, 16, 32])
    draw.log_ticks(ax, "y", [2, 4, 8, 16, 32])
    ax.set(xlabel="instructions per byte moved", ylabel="million instructions per \u00b5s")
    ax.set(xlim=(0.4, 60), ylim=(1.8, 50))
    figure.legend(loc="outside lower center", ncols=2)
    side, limit = ("left", "bytes") if at < ridge else ("right", "instructions")
    title = (
        f"{instructions} instructions per element in {dtype}: {side} of the ridge, {limit} limit it"
    )
    draw.finish(figure, title, measured.source)


def _roof(machine: Machine, intensity):
    """Million instructions per microsecond, at this many per byte."""
    return np.minimum(machine.bytes_a_us * intensity, machine.instructions_a_us) / 1e6


def fingerprints(found: dict[str, dict[str, float]], changes: Sequence[str], source: str) -> None:
    """For each limit and each change: how many times as long the call takes after it.

    It is bold where a change moves the time by a quarter or more.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 1.7 + 0.5 * len(found)))
    ratios = np.array([[of_one[change] for change in changes] for of_one in found.values()])
    ax.imshow(np.log2(ratios), cmap=draw.DIVERGING, vmin=-5, vmax=5, aspect="auto")
    for (row, column), ratio in np.ndenumerate(ratios):
        moves = abs(np.log2(ratio)) > np.log2(1.25)
        weight = "bold" if moves else "normal"
        draw.write(ax, column, row, f"{ratio:.2f}", fontsize=12, weight=weight, color=ON_COLOR)
    ax.set_xticks(range(len(changes)), [change.replace(" ", "\n", 1) for change in changes])
    ax.set_yticks(range(len(found)), list(found))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    title = "Each limit has its own fingerprint: the time after a change, over the time before"
    draw.finish(figure, title, source)
