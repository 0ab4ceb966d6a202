"""Drawings of notebook 09 and its detour: tiles, the waterfall, host times over device times."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from . import audit
from .labels import Place, along, beside
from .style import (
    BLUE,
    GREEN,
    INK,
    ON_COLOR,
    ORANGE,
    PURPLE,
    RED,
    SEQUENTIAL,
    WIDTH,
    color_key,
    finish,
    inked,
)


def tiles(
    measurement, rows: tuple, warps: tuple, row_bytes: int, title: str, ending: str = ""
) -> None:
    """Per cent of copy bandwidth for each tile.

    Args:
        measurement: with a case 'copy', and one for each tile.
        rows, warps: of the tiles.
        row_bytes: bytes of a row.
        title: what the map shows.
        ending: what ends the names of its cases.
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    copy = measurement["copy"].median_us
    share = [
        [100 * copy / measurement[f"{r} rows, {w} warps{ending}"].median_us for w in warps]
        for r in rows
    ]
    shades = ax.imshow(share, cmap=SEQUENTIAL, vmin=30, vmax=100, aspect="auto")
    best = max(max(line) for line in share)
    for y, line in enumerate(share):
        for x, value in enumerate(line):
            color = _text_on(np.array(shades.to_rgba(value)[:3]))
            weight = "bold" if value == best else "normal"
            text = {"ha": "center", "va": "center", "color": color, "weight": weight}
            ax.text(x, y, f"{value:.1f}", **text)
    ax.set_xticks(range(len(warps)), [str(w) for w in warps])
    ax.set_yticks(range(len(rows)), [f"{r} ({r * row_bytes / 1024:g} KiB)" for r in rows])
    ax.set(xlabel="warps per program", ylabel="rows per program")
    ax.spines[:].set_visible(False)
    ax.set_title("% of copy bandwidth")
    words = f"A table of tiles, rows by warps, shaded by speed. The best reaches {best:.1f} %, "
    words += f"the slowest {min(min(line) for line in share):.1f} %."
    finish(figure, title, words, measurement.source)


def _text_on(color: np.ndarray) -> str:
    """Black or white: one of them has a contrast of 4.5 or more with any color."""
    return max("black", "white", key=lambda text: audit.contrast(np.array(to_rgb(text)), color))


def waterfall(times: dict[str, float], copy: float, source: str, title: str) -> None:
    """From the first time to the last: what each step took away, over a copy's time.

    The first bar is far longer than the others, and is cut off. Numbers are in columns of their
    own beside the bars: the time, what changed, and the per cent of copy bandwidth.
    """
    names, values = list(times), list(times.values())
    figure, ax = plt.subplots(figsize=(WIDTH, 2.2 + 0.36 * len(names)))
    end = 1.08 * max(values[1:])
    digits = 1 if max(values) < 9999 else 0  # wider numbers would leave their columns
    for place, (us, before) in enumerate(zip(values, [values[0], *values], strict=False)):
        ax.barh(place, min(us, end), color=GREEN if place == len(names) - 1 else BLUE, height=0.62)
        if us < before:
            went = min(before, end) - us
            ax.barh(place, went, left=us, color=ORANGE, height=0.62)
        elif us > before:
            ax.barh(place, us - before, left=before, color=RED, height=0.62)
        change = round(us - before, digits)
        changed = f"{change:+.{digits}f}" if change else f"{0:.{digits}f}"
        time, share = f"{us:.{digits}f}", f"{100 * copy / us:.1f} %"
        _beside(ax, place, time, changed if place else "", share)
        if us > end:
            ax.text(end, place, "cut off ", ha="right", va="center", color=ON_COLOR)
    _beside(ax, -0.9, "µs", "change", "of copy")
    ax.axvline(copy, color=INK, linestyle=":", linewidth=1.4)
    ax.annotate("copy", (copy, -0.9), xytext=(5, 0), textcoords="offset points", va="center")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="device time in microseconds", xlim=(0, end), ylim=(len(names) - 0.5, -1.3))
    key = {"time left": BLUE, "taken away": ORANGE, "added": RED, "our kernel": GREEN}
    color_key(figure, key)
    steps = ", ".join(f"{name} {us:.1f} \u00b5s" for name, us in times.items())
    words = f"A waterfall from one version to the next; the copy takes {copy:.1f} \u00b5s. {steps}."
    finish(figure, title, words, source)


def _beside(ax: Axes, place: float, *texts: str) -> None:
    """A line of the table to the right of the bars, in columns of a fixed width."""
    for points, text in zip((46, 100, 154), texts, strict=True):
        ax.annotate(
            text, (1, place), xycoords=ax.get_yaxis_transform(), xytext=(points, 0),
            textcoords="offset points", ha="right", va="center",
        )  # fmt: skip


def host_and_device(
    host: dict[str, float], fixed: float, rate: float, sizes: list[int], title: str
) -> None:
    """Device time over the bytes of a call, and host times as lines across: where they meet."""
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    lines = (BLUE, "--"), (ORANGE, "-."), (PURPLE, ":")  # green is the device
    ax.loglog(sizes, [fixed + size / rate for size in sizes], color=GREEN)
    for place, (name, us) in enumerate(host.items()):
        color, style = lines[place % len(lines)]
        ax.axhline(us, color=color, linestyle=style)
        beside(ax, f"host: {name}", along([(size, us) for size in sizes[::3]]), color=inked(color))
        if us > fixed:
            ax.plot((us - fixed) * rate, us, "o", color=INK)
    lowest = min(fixed, *host.values())
    ax.set(xlabel="bytes read and written by a call", ylabel="microseconds")
    ax.set_ylim(bottom=lowest / 2)
    steep = [(size, fixed + size / rate) for size in sizes[:-6:-1]]
    left = [Place(point, (-10, 2), "right", "bottom") for point in steep]
    right = [Place(point, (10, -2), "left", "top") for point in steep]
    beside(ax, "device, by the time law", [left, right], color=inked(GREEN))
    meets = {name: (us - fixed) * rate for name, us in host.items() if us > fixed}
    each = ", ".join(f"{name} at {size / 1e6:.0f} MB" for name, size in meets.items())
    words = "Device time over bytes, flat and then rising, and host times as lines across. "
    finish(figure, title, words + (f"They meet: {each}." if meets else ""))
