"""The picture of everybody from their sources: how near to a copy each comes, over all shapes."""

from statistics import median

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.reports.peers import DIRECTIONS
from benchmarks.reports.pictures import Picture
from benchmarks.rows import LIMITS, OURS
from rope_lab.figures import style as draw


def picture(record: dict) -> Figure | None:
    """A line for each provider, fastest first; on it a dot for each shape, a bar at the median."""
    rows = [row for row in record["rows"] if row["provider"] not in LIMITS]
    shares: dict[str, list[float]] = {}
    for row in rows:
        shares.setdefault(row["provider"], []).append(row["of_copy"])
    names = sorted(shares, key=lambda name: -median(shares[name]))
    if not names:
        return None
    figure, axes = plt.subplots(
        1, 2, figsize=(draw.WIDTH, 1.7 + 0.3 * len(names)), sharey=True, sharex=True
    )
    for ax, direction in zip(axes, DIRECTIONS, strict=True):
        _one_direction(ax, [row for row in rows if row["direction"] == direction], names)
        ax.set(title=direction, xlabel="% of copy bandwidth", xlim=(0, 106))
    axes[0].set_yticks(range(len(names)), names, fontsize=draw.SMALL)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    draw.conclude(figure, _conclusion(shares, names))
    return figure


def _one_direction(ax: Axes, rows: list[dict], names: list[str]) -> None:
    ax.axvline(100, color=draw.INK, linewidth=0.8, linestyle="--")
    for place, name in enumerate(names):
        ax.axhline(place, color=draw.PALE, linewidth=1, zorder=0)
        found = [100 * row["of_copy"] for row in rows if row["provider"] == name]
        if not found:
            ax.text(2, place, "none", va="center", fontsize=draw.SMALL, color=draw.GREY)
            continue
        color = draw.GREEN if name.startswith(OURS) else draw.BLUE
        ax.scatter(found, [place] * len(found), s=22, color=color, zorder=3)
        ax.vlines(median(found), place - 0.36, place + 0.36, color=color, linewidth=2.4)


def _conclusion(shares: dict[str, list[float]], names: list[str]) -> str:
    def of(name: str) -> str:
        return f"{100 * median(shares[name]):.0f} %"

    others = [name for name in names if not name.startswith(OURS)]
    best = f"{names[0]} reaches {of(names[0])} of copy bandwidth in the median"
    if names[0] in others or not others:
        return best
    return f"{best}; the next, {others[0]}, {of(others[0])}"


PICTURES = {"": Picture(picture)}
