"""The pictures of a file of results. Each carries the fingerprint of the results it shows."""

import hashlib
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from benchmarks.rows import LIMITS, OURS, comparisons, is_old, share
from rope_lab.figures import style as draw
from rope_lab.records import origin

SKY, OLIVE = "#56b4e9", "#a3a500"  # two more that stay apart from the palette's five
LOOKS = {  # provider -> colour, marker
    "copy_": (draw.INK, None),
    "x * 2": (draw.INK, None),
    OURS: (draw.GREEN, "o"),
    "rope_kernels, on the fly": (draw.GREEN, "^"),
    "rope_kernels, cos and sin": (draw.GREEN, "v"),
    "PyTorch eager": (draw.RED, "s"),
    "torch.compile": (draw.ORANGE, "D"),
    "Hugging Face": (draw.RED, "x"),
    "Hugging Face, compiled": (draw.ORANGE, "+"),
    "Liger-Kernel": (draw.PURPLE, "P"),
    "TransformerEngine": (draw.BLUE, "X"),
    "FlashAttention": (SKY, "p"),
    "flashinfer": (OLIVE, "h"),
    "Unsloth": (draw.PURPLE, "<"),
}


def draw_all(results: dict, path: Path) -> list[Path]:
    """Draw every picture that the results have rows for, beside their file."""
    draw.style()
    pictures = {"": headline}
    if not is_old(results):
        pictures |= {"-bandwidth": bandwidth, "-shapes": shapes, "-host": host}
    written = []
    for suffix, picture in pictures.items():
        figure = picture(results)
        if figure is None:
            continue
        draw.cite(figure, origin(results["gpu"], results["versions"], results["date"]))
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


def headline(results: dict) -> Figure | None:
    """For README.md: what RoPE does, beside how long it takes."""
    together, _ = next(comparisons(results["rows"]))
    times = {name: row["median_us"] for name, row in together.items() if row.get("right", True)}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.2, max(3.3, 1.3 + 0.27 * len(times))), width_ratios=(1, 1.5)
    )
    draw.plane(left, title="what it does: turn each pair by its position")
    left.set(xlabel="element i", ylabel="element i + d/2")
    for position in range(8):
        turn = np.radians(8 + 20 * position)
        fading = (*plt.matplotlib.colors.to_rgb(draw.BLUE), 1.0 - 0.09 * position)
        draw.arrow(left, (np.cos(turn), np.sin(turn)), fading)
        left.text(1.14 * np.cos(turn), 1.14 * np.sin(turn), position, ha="center", va="center")

    colors = [
        draw.INK if name in LIMITS else draw.GREEN if name.startswith(OURS) else draw.BLUE
        for name in times
    ]
    draw.bars_on(right, times, colors)
    right.set(xlabel="microseconds on the GPU (shorter is better)")
    right.set(title=f"how long it takes: {next(iter(together.values()))['shape']}")
    return figure


def bandwidth(results: dict) -> Figure | None:
    """GB/s against the sequence length, forward and backward, as the study plots it."""
    rows = [row for row in results["rows"] if row["set"] == "seeds"]
    directions = [d for d in ("forward", "backward") if any(r["direction"] == d for r in rows)]
    if not directions:
        return None
    figure, axes = plt.subplots(1, len(directions), figsize=(9.2, 4.3), sharey=True, squeeze=False)
    for ax, direction in zip(axes[0], directions, strict=True):
        of_direction = [row for row in rows if row["direction"] == direction and row["right"]]
        for name in _in_order(of_direction):
            points = sorted(
                (row["s"], row["bytes"] / row["median_us"] / 1e3)
                for row in of_direction
                if row["provider"] == name
            )
            color, marker = LOOKS[name]
            line = "--" if name in LIMITS else ":" if name.startswith(f"{OURS},") else "-"
            ax.plot(*zip(*points, strict=True), line, color=color, marker=marker, label=name,
                    markersize=5, linewidth=1.6)  # fmt: skip
        lengths = sorted({row["s"] for row in of_direction})
        ax.set_xscale("log", base=2)
        ax.set_xticks(lengths, [str(s) for s in lengths], rotation=45)
        ax.set(title=direction, xlabel="sequence length s", ylim=(0, None))
        ax.grid(axis="y")
    first = rows[0]
    axes[0, 0].set_ylabel(
        f"GB/s at b {first['b']}, h {first['h']}, d {first['d']}, {first['dtype']}"
    )
    _legend(figure, axes[0, 0])
    return figure


def shapes(results: dict) -> Figure | None:
    """Each shape's share of the copy's speed: ours as a bar, the others as marks on its line."""
    rows = [row for row in results["rows"] if row["set"] == "bars" and row["clock"] != "host"]
    directions = [d for d in ("forward", "backward") if any(r["direction"] == d for r in rows)]
    if not directions:
        return None
    names = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = plt.subplots(
        1,
        len(directions),
        figsize=(10.5, 1.6 + 0.27 * len(names)),
        sharey=True,
        squeeze=False,
    )
    labels, longest = {}, 100.0
    for ax, direction in zip(axes[0], directions, strict=True):
        for together, limit in comparisons([r for r in rows if r["direction"] == direction]):
            place = names.index(limit["shape"])
            for name, row in together.items():
                if name in LIMITS or not row["right"]:
                    continue
                color, marker = LOOKS[name]
                percent = 100 * share(row, limit)
                longest = max(longest, percent)
                if name == OURS:
                    labels[name] = ax.barh(place, percent, color=color, height=0.6, alpha=0.55)
                    ax.text(
                        max(102, percent) + 0.02 * percent,
                        place,
                        f"{percent:.1f}",
                        va="center",
                        fontsize=8,
                    )
                else:
                    labels[name] = ax.scatter(
                        percent, place, color=color, marker=marker, s=24, zorder=3, linewidth=1.2
                    )
                if row["bar"] and row["bar"]["at_least"]:
                    asked = 100 * row["bar"]["at_least"]
                    labels["bar"] = ax.vlines(
                        asked, place - 0.42, place + 0.42, color=draw.INK, linewidth=2
                    )
        ax.axvline(100, color=draw.INK, linewidth=0.8, linestyle="--")
        ax.set(
            title=direction,
            xlabel="per cent of the copy's speed",
        )
    for ax in axes[0]:
        ax.set_xlim(0, 1.2 * longest)
    axes[0, 0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    order = [name for name in (*LOOKS, "bar") if name in labels]
    figure.legend(
        [labels[name] for name in order],
        order,
        loc="outside upper center",
        ncols=5,
        fontsize=9,
    )
    return figure


def host(results: dict) -> Figure | None:
    """What a call costs the CPU at tiny sizes."""
    rows = [row for row in results["rows"] if row["set"] == "bars" and row["clock"] == "host"]
    if not rows:
        return None
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    sizes = list(dict.fromkeys(row["shape"] for row in rows))
    names = _in_order(rows)
    height = 0.8 / len(names)
    figure, axes = plt.subplots(
        1,
        len(directions),
        figsize=(10.5, 1.4 + 0.17 * len(names) * len(sizes)),
        sharey=True,
        squeeze=False,
    )
    for ax, direction in zip(axes[0], directions, strict=True):
        for row in (row for row in rows if row["direction"] == direction):
            place = sizes.index(row["shape"]) + (names.index(row["provider"]) + 0.5) * height - 0.4
            color, _ = LOOKS[row["provider"]]
            hatch = {"rope_kernels, on the fly": "//", "Hugging Face": "//"}.get(row["provider"])
            ax.barh(place, row["median_us"], height * 0.9, color=color, hatch=hatch,
                    label=row["provider"] if row["shape"] == sizes[0] else None)  # fmt: skip
            ax.text(row["median_us"], place, f" {row['median_us']:.0f}", va="center", fontsize=7)
        title = {"both": "forward and backward"}.get(direction, direction)
        ax.set(title=title, xlabel="microseconds on the CPU")
        ax.margins(x=0.14)
    labels = [size.split(", host")[0].replace(") ", ")\n") for size in sizes]
    axes[0, 0].set_yticks(range(len(sizes)), labels, fontsize=9)
    axes[0, 0].invert_yaxis()
    _legend(figure, axes[0, 0])
    figure.get_layout_engine().set(w_pad=0.12)  # inches: room between one scale's end and the next
    return figure


def _in_order(rows: list[dict]) -> list[str]:
    return [name for name in LOOKS if any(row["provider"] == name for row in rows)]


def _legend(figure: Figure, ax) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=9)
