"""Drawings of notebook 08 and its detour: copies, fingerprints, wrong ways to time."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, HATCHED, INK, ON_COLOR, ORANGE, RED, WIDTH
from ..profiling.roofline import Machine


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


def fingerprints(found: dict[str, dict[str, float]], changes: Sequence[str], source: str) -> None:
    """For each limit and each change: how many times as long the call takes after it.

    It is bold where a change moves the time by a quarter or more.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 2.2 + 0.5 * len(found)))
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
    falls, grows = (to_hex(plt.get_cmap(draw.DIVERGING)(place)) for place in (0.2, 0.8))
    draw.color_key(figure, {"takes less time": falls, "takes more time": grows})
    title = "Each limit has its own fingerprint: the time after a change, over the time before"
    draw.finish(figure, title, source)
