"""The picture beside a file of peers' results. It carries the fingerprint of what it shows."""

import hashlib
import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.case import LIMITS, OURS
from rope_lab.records import origin

PLATE, INK, GREY, PALE = "#fafafa", "#333333", "#858585", "#dcdcdc"
BLUE, GREEN = "#3d8fd1", "#0a9a70"
STYLE = {
    **{"figure.facecolor": PLATE, "axes.facecolor": PLATE, "figure.constrained_layout.use": True},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"},
    **{"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "legend.frameon": False},
}
SMALL = 9  # points


def draw(results: dict, path: Path) -> list[Path]:
    """Draw the picture beside a file of results, if they have rows for it."""
    with plt.rc_context(STYLE):
        figure = peers(results["rows"])
        if figure is None:
            return []
        source = origin(results["gpu"], results["versions"], results["date"])
        figure.supxlabel(source, x=0.01, ha="left", fontsize=SMALL)
        file = path.with_suffix(".png")
        metadata = {"Software": None, "Results": fingerprint(results)}
        figure.savefig(file, dpi=160, metadata=metadata)
        plt.close(figure)
    return [file]


def fingerprint(results: dict) -> str:
    """Of what a picture shows: the rows, and where and when they were measured."""
    shown = {key: results[key] for key in ("gpu", "versions", "date", "rows")}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def peers(rows: list[dict]) -> Figure | None:
    """A line for each provider, fastest first; on it a dot for each shape, a bar at the median."""
    rows = [row for row in rows if row["provider"] not in LIMITS]
    shares: dict[str, list[float]] = {}
    for row in rows:
        shares.setdefault(row["provider"], []).append(100 * row["of_copy"])
    names = sorted(shares, key=lambda name: -median(shares[name]))
    if not names:
        return None
    figure, axes = _axes(rows, 1.7 + 0.3 * len(names))
    for ax, direction in axes:
        _lines(ax, names)
        for place, name in enumerate(names):
            mine = [row for row in rows if (row["provider"], row["direction"]) == (name, direction)]
            found = [100 * row["of_copy"] for row in mine]
            if not found:
                ax.text(2, place, "none", va="center", fontsize=SMALL, color=GREY)
                continue
            color = GREEN if name.startswith(OURS) else BLUE
            ax.scatter(found, [place] * len(found), s=22, color=color, zorder=3)
            ax.vlines(median(found), place - 0.36, place + 0.36, color=color, linewidth=2.4)
        ax.axvline(100, color=INK, linewidth=0.8, linestyle="--")
        ax.set(xlabel="% of copy bandwidth", xlim=(0, 106))
    others = [name for name in names if not name.startswith(OURS)]
    best = f"{names[0]} reaches {median(shares[names[0]]):.0f} % of copy bandwidth in the median"
    if others and others[0] != names[0]:
        best += f"; the next, {others[0]}, {median(shares[others[0]]):.0f} %"
    return _concluded(figure, best)


def _axes(rows: list[dict], inches: float) -> tuple[Figure, Iterable[tuple[Axes, str]]]:
    """A figure of so many inches, and axes for each direction that was measured."""
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    figure, axes = plt.subplots(
        1, len(directions), figsize=(9.2, inches), sharey=True, squeeze=False
    )
    for ax, direction in zip(axes[0], directions, strict=True):
        ax.set_title(direction)
    return figure, list(zip(axes[0], directions, strict=True))


def _lines(ax: Axes, labels: list[str]) -> None:
    """A line for each label, the first one above."""
    for place in range(len(labels)):
        ax.axhline(place, color=PALE, linewidth=1, zorder=0)
    ax.set_yticks(range(len(labels)), labels, fontsize=SMALL)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def _concluded(figure: Figure, conclusion: str) -> Figure:
    """With its title: what one should see in it."""
    words = textwrap.fill(conclusion, 90)
    figure.suptitle(words, x=0.01, ha="left", fontsize=12)
    return figure
