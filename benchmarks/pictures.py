"""Pictures beside a file of results. Each carries the fingerprint of the results that it shows."""

import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.case import COS_AND_SIN, LIMITS, ON_THE_FLY, OURS
from benchmarks.providers import EVERY_WAY
from benchmarks.results import bandwidth, comparisons, share
from rope_lab.records import origin

PLATE, INK, GREY, PALE = "#fafafa", "#333333", "#858585", "#dcdcdc"
BLUE, GREEN, ORANGE, RED = "#3d8fd1", "#0a9a70", "#cc7a00", "#c8321e"
LOOKS = {  # provider -> color, marker
    **{"copy_": (INK, None), "x * 2": (GREY, "s")},
    **{OURS: (GREEN, "o"), ON_THE_FLY: (GREEN, "^"), COS_AND_SIN: (GREEN, "v")},
    **{"PyTorch eager": (RED, "s"), "torch.compile": (ORANGE, "D")},
    **{"Hugging Face": (RED, "x"), "Hugging Face, compiled": (ORANGE, "+")},
    **{name: ("#bd6c9f", "P*X<>hd"[place % 7]) for place, name in enumerate(EVERY_WAY)},
}
STYLE = {
    **{"figure.facecolor": PLATE, "axes.facecolor": PLATE, "figure.constrained_layout.use": True},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"},
    **{"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "legend.frameon": False},
}
CLOSE = 0.95  # of copy bandwidth, from which on a title calls two speeds close
SMALL = 9  # points


def draw_all(results: dict, names: Mapping[str, str], path: Path) -> list[Path]:
    """Draw every picture that the results have rows for.

    `names` has what goes after the file's name, and the function here that draws it.
    """
    written = []
    for suffix, name in names.items():
        with plt.rc_context(STYLE):
            figure = _BY_NAME[name](results["rows"])
            if figure is None:
                continue
            source = origin(results["gpu"], results["versions"], results["date"])
            figure.supxlabel(source, x=0.01, ha="left", fontsize=SMALL)
            file = path.with_name(f"{path.stem}{suffix}.png")
            metadata = {"Software": None, "Results": fingerprint(results)}
            figure.savefig(file, dpi=160, metadata=metadata)
            plt.close(figure)
        written.append(file)
    return written


def fingerprint(results: dict) -> str:
    """Of what a picture shows: the rows, and where and when they were measured."""
    shown = {key: results[key] for key in ("gpu", "versions", "date", "rows")}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def seeds(rows: list[dict]) -> Figure | None:
    """GB/s against the sequence length, forward and backward, as the study plots it."""
    rows = [row for row in rows if row["set"] == "seeds"]
    if not rows:
        return None
    figure, axes = _axes(rows, 4.9)
    for ax, direction in axes:
        of_direction = [row for row in rows if row["direction"] == direction]
        for name in _in_order(of_direction):
            mine = [row for row in of_direction if row["provider"] == name]
            points = sorted((row["s"], bandwidth(row)) for row in mine)
            color, marker = LOOKS[name]
            dashed = "--" if name in LIMITS else "-"
            ax.plot(*zip(*points, strict=True), dashed, color=color, marker=marker, label=name)
        ax.set_xscale("log", base=2)
        ax.set(xlabel="sequence length s", ylabel="GB/s", ylim=(0, None))
    _legend(figure)
    close = None  # the length from which on ours is close to a copy
    for together, limit in comparisons([row for row in rows if row["direction"] == "forward"]):
        is_close = OURS in together and share(together[OURS], limit) >= CLOSE
        close = (close or limit["s"]) if is_close else None
    shape = "b {b}, h {h}, d {d}, {dtype}".format(**rows[0])
    said = f"From s = {close} on, rope_kernels is within {100 - 100 * CLOSE:.0f} % of a copy"
    return _concluded(figure, f"{said} ({shape})" if close else f"Bandwidth at {shape}")


def shapes(rows: list[dict]) -> Figure | None:
    """Each shape's per cent of copy bandwidth: a line for each, a mark for each provider."""
    rows = [row for row in rows if row["set"] == "bars" and row["clock"] != "host"]
    rows = [row for row in rows if row["direction"] != "both"]
    if not rows:
        return None
    labels = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = _axes(rows, 2.4 + 0.33 * len(labels))
    ours = []
    for ax, direction in axes:
        _lines(ax, [textwrap.fill(label, 40) for label in labels])
        for together, limit in comparisons([r for r in rows if r["direction"] == direction]):
            place = labels.index(limit["shape"])
            for name, row in together.items():
                if name not in LIMITS:
                    _mark(ax, 100 * share(row, limit), place, name)
            if OURS in together:
                ours.append(share(together[OURS], limit))
                said = f"{100 * ours[-1]:.1f}"
                end = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
                ax.text(1.0, place, said, fontsize=SMALL, **end)
                bar = together[OURS]["bar"]
                if bar and bar["at_least"]:
                    goal = 100 * bar["at_least"]
                    ax.vlines(goal, place - 0.4, place + 0.4, color=INK, label="goal")
        ax.axvline(100, color=INK, linewidth=0.8, linestyle="--")
        ax.set(xlabel="% of a copy; right: ours", xlim=(0, 1.3 * ax.get_xlim()[1]))
    _legend(figure)
    good = f"{sum(one >= CLOSE for one in ours)} of {len(ours)} cases"
    said = f"rope_kernels reaches {100 * CLOSE:.0f} % of copy bandwidth in {good}"
    return _concluded(figure, said)


def host(rows: list[dict]) -> Figure | None:
    """What a call costs the CPU at tiny sizes."""
    rows = [row for row in rows if row["set"] == "bars" and row["clock"] == "host"]
    if not rows:
        return None
    labels = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = _axes(rows, 2.4 + 0.5 * len(labels))
    for ax, direction in axes:
        _lines(ax, [label.removesuffix(", host time") for label in labels])
        for row in (row for row in rows if row["direction"] == direction):
            _mark(ax, row["median_us"], labels.index(row["shape"]), row["provider"])
        ax.set(xlabel="µs on the CPU", xlim=(0, None))
    _legend(figure)

    def span(provider: str) -> str:
        mine = [row for row in rows if row["provider"] == provider]
        times = [round(row["median_us"]) for row in mine if row["direction"] == "forward"]
        low, high = min(times), max(times)
        return f"{low} µs" if low == high else f"{low} to {high} µs"

    said = f"A forward takes the CPU {span(OURS)}; with PyTorch's operators {span('PyTorch eager')}"
    return _concluded(figure, said)


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


def _mark(ax: Axes, value: float, place: int, name: str) -> None:
    """A provider's mark. Ours is a ring, in which the others are seen."""
    color, marker = LOOKS[name]
    ring = {"facecolor": "none", "s": 90, "linewidth": 2} if name == OURS else {"s": 26}
    ax.scatter(value, place, color=color, marker=marker, zorder=3, label=name, **ring)


def _in_order(rows: list[dict]) -> list[str]:
    return [name for name in LOOKS if any(row["provider"] == name for row in rows)]


def _legend(figure: Figure) -> None:
    """At the right, each mark once."""
    found = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    names = [name for name in (*LOOKS, "goal") if name in found]
    handles = [found[name] for name in names]
    figure.legend(handles, names, loc="outside right upper", fontsize=SMALL)


def _concluded(figure: Figure, conclusion: str) -> Figure:
    """With its title: what one should see in it."""
    words = textwrap.fill(conclusion, 90)
    figure.suptitle(words, x=0.01, ha="left", fontsize=12)
    return figure


_BY_NAME = {draw.__name__: draw for draw in (seeds, shapes, host, peers)}
