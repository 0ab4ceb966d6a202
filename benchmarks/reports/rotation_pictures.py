"""The pictures of rotations: bandwidth, all shapes, host time."""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.reports.pictures import Picture
from benchmarks.rows import LIMITS, OURS, comparisons, share
from rope_lab.figures import style as draw

SKY, OLIVE = "#2a9db0", "#8a8b1c"  # two more that stay apart from the palette's five
LOOKS = {  # provider -> color, marker
    "copy_": (draw.INK, None),
    "x * 2": (draw.GREY, None),
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
CLOSE = 0.95  # of copy bandwidth, from which on a title calls two speeds close


def bandwidth(results: dict) -> Figure | None:
    """GB/s against the sequence length, forward and backward, as the study plots it."""
    rows = [row for row in results["rows"] if row["set"] == "seeds"]
    directions = [d for d in ("forward", "backward") if any(r["direction"] == d for r in rows)]
    if not directions:
        return None
    figure, axes = plt.subplots(
        1, len(directions), figsize=(draw.WIDTH, 4.9), sharey=True, squeeze=False
    )
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
        ax.set_xticks(lengths[::2], [str(s) for s in lengths[::2]])
        ax.set(title=direction, xlabel="sequence length s", ylim=(0, None))
        ax.grid(axis="y")
    first = rows[0]
    axes[0, 0].set_ylabel("GB/s")
    shape = f"b {first['b']}, h {first['h']}, d {first['d']}, {first['dtype']}"
    draw.conclude(figure, _close_from(rows, directions[0], shape))
    _legend(figure, axes[0, 0])
    return figure


def _close_from(rows: list[dict], direction: str, shape: str) -> str:
    """From which sequence length on ours is close to a copy."""
    lengths = sorted({row["s"] for row in rows})
    shares = {}
    for together, limit in comparisons([row for row in rows if row["direction"] == direction]):
        if OURS in together:
            shares[limit["s"]] = share(together[OURS], limit)
    close = None
    for s in reversed(lengths):
        if shares.get(s, 0) < CLOSE:
            break
        close = s
    if close is None:
        return f"Bandwidth at {shape}"
    return (
        f"From s = {close} on, rope_kernels is within {100 - 100 * CLOSE:.0f} % of a copy ({shape})"
    )


def shapes(results: dict) -> Figure | None:
    """Each shape's per cent of copy bandwidth: a line for each, a mark for each provider."""
    rows = [row for row in results["rows"] if row["set"] == "bars" and row["clock"] != "host"]
    directions = [d for d in ("forward", "backward") if any(r["direction"] == d for r in rows)]
    if not directions:
        return None
    names = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = plt.subplots(
        1,
        len(directions),
        figsize=(draw.WIDTH, 2.4 + 0.33 * len(names)),
        sharey=True,
        squeeze=False,
    )
    labels, ours = {}, []
    for ax, direction in zip(axes[0], directions, strict=True):
        of_direction = [row for row in rows if row["direction"] == direction]
        ours += _shares_on(ax, of_direction, names, labels)
        ax.axvline(100, color=draw.INK, linewidth=0.8, linestyle="--")
        ax.set(title=direction, xlabel="% of copy bandwidth")
    wrapped = [textwrap.fill(name, 44) for name in names]
    axes[0, 0].set_yticks(range(len(names)), wrapped, fontsize=draw.SMALL)
    axes[0, 0].set_ylim(len(names) - 0.4, -1.3)
    order = [name for name in (*LOOKS, "goal") if name in labels]
    handles = [labels[name] for name in order]
    figure.legend(handles, order, loc="outside lower center", ncols=4, fontsize=10)
    good = sum(one >= CLOSE for one in ours)
    cases = f"{good} of {len(ours)} cases"
    draw.conclude(figure, f"rope_kernels reaches {100 * CLOSE:.0f} % of copy bandwidth in {cases}")
    return figure


def _shares_on(ax: Axes, rows: list[dict], names: list[str], labels: dict) -> list[float]:
    """Draw one direction; ours of it. The first mark of each provider goes into `labels`."""
    ours, longest = [], 1.0
    for together, limit in comparisons(rows):
        place = names.index(limit["shape"])
        ax.axhline(place, color=draw.PALE, linewidth=1, zorder=0)
        for name, row in together.items():
            if name in LIMITS or not row["right"]:
                continue
            color, marker = LOOKS[name]
            mark = {"color": color, "marker": marker, "s": 26, "linewidth": 1.3, "zorder": 3}
            if name == OURS:  # a ring, in which the others are seen
                mark |= {"facecolor": "none", "s": 90, "linewidth": 2.2}
            labels[name] = ax.scatter(100 * share(row, limit), place, **mark)
            longest = max(longest, share(row, limit))
            if name == OURS:
                ours.append(share(row, limit))
                end = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
                ax.text(1.0, place, f"{100 * ours[-1]:.1f}", fontsize=draw.SMALL, **end)
            if row["bar"] and row["bar"]["at_least"]:
                asked = 100 * row["bar"]["at_least"]
                line = {"color": draw.INK, "linewidth": 2}
                labels["goal"] = ax.vlines(asked, place - 0.42, place + 0.42, **line)
    head = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    ax.text(1.0, -0.95, "ours", fontsize=draw.SMALL, **head)
    ax.set_xlim(0, 145 * longest)
    return ours


def host(results: dict) -> Figure | None:
    """What a call costs the CPU at tiny sizes."""
    rows = [row for row in results["rows"] if row["set"] == "bars" and row["clock"] == "host"]
    if not rows:
        return None
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    sizes = list(dict.fromkeys(row["shape"] for row in rows))
    names = _in_order(rows)
    places = _places(rows, sizes, names)
    figure, axes = plt.subplots(
        1,
        len(directions),
        figsize=(draw.WIDTH, 2.6 + 0.19 * (1 + max(places.values()))),
        sharey=True,
        squeeze=False,
    )
    for ax, direction in zip(axes[0], directions, strict=True):
        for row in (row for row in rows if row["direction"] == direction):
            place = places[row["shape"], row["provider"]]
            color, hatch = _look_of_bar(row["provider"])
            look = {"color": color, "hatch": hatch, "edgecolor": draw.PLATE, "linewidth": 0}
            label = row["provider"] if row["shape"] == sizes[0] else None
            ax.barh(place, row["median_us"], 0.86, label=label, **look)
            ax.annotate(
                f"{row['median_us']:.0f}", (row["median_us"], place), xytext=(3, 0), va="center",
                textcoords="offset points", fontsize=draw.SMALL,
            )  # fmt: skip
        title = {"both": "forward and backward"}.get(direction, direction)
        ax.set(title=title, xlabel="µs on the CPU")
        ax.margins(x=0.2)
    labels = [size.split(", host")[0].replace(") ", ")\n") for size in sizes]
    middles = [np.mean([at for (one, _), at in places.items() if one == size]) for size in sizes]
    axes[0, 0].set_yticks(middles, labels, fontsize=draw.SMALL)
    axes[0, 0].invert_yaxis()
    _legend(figure, axes[0, 0])
    draw.conclude(figure, _host_conclusion(rows))
    figure.get_layout_engine().set(w_pad=0.12)  # inches: room between one scale's end and the next
    return figure


def _places(rows: list[dict], sizes: list[str], names: list[str]) -> dict[tuple[str, str], float]:
    """(shape, provider) -> where its bar is. What was not measured takes no room."""
    places, place = {}, 0
    for size in sizes:
        of_size = {row["provider"] for row in rows if row["shape"] == size}
        for name in (name for name in names if name in of_size):
            places[size, name] = place
            place += 1
        place += 1
    return places


def _look_of_bar(provider: str) -> tuple[str, str | None]:
    """Color and hatch of a provider's bar."""
    hatch = {"rope_kernels, on the fly": "///", "Hugging Face": "///"}.get(provider)
    return LOOKS[provider][0], hatch


def _host_conclusion(rows: list[dict]) -> str:
    """What a forward costs the CPU with ours and with PyTorch's operators."""

    def span(provider: str) -> str:
        times = [
            row["median_us"]
            for row in rows
            if row["provider"] == provider and row["direction"] == "forward"
        ]
        low, high = round(min(times)), round(max(times))
        return f"{low} µs" if low == high else f"{low} to {high} µs"

    if not {OURS, "PyTorch eager"} <= {r["provider"] for r in rows if r["direction"] == "forward"}:
        return "Host time of small calls"
    return f"A forward takes the CPU {span(OURS)}; with PyTorch's operators {span('PyTorch eager')}"


def _in_order(rows: list[dict]) -> list[str]:
    return [name for name in LOOKS if any(row["provider"] == name for row in rows)]


def _legend(figure: Figure, ax: Axes) -> None:
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=10)


PICTURES = {
    "-bandwidth": Picture(bandwidth),
    "-shapes": Picture(shapes),
    "-host": Picture(host),
}
