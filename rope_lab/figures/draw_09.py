"""Drawings of notebook 09: copies and their law, tiles, the waterfall, tables of angles, peers."""

import matplotlib.pyplot as plt

from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, PROGRAM_COLORS, RED, SEQUENTIAL, cite


def law_of_copies(copies: list[tuple[int, float]], fixed: float, rate: float, source: str) -> None:
    """Copies of many sizes, (bytes, microseconds), and the line that they lie on.

    `fixed` is the line's time at no bytes in microseconds, `rate` its bytes a microsecond.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.4))
    sizes = [size for size, _ in copies]
    line = [fixed + size / rate for size in sizes]
    left.loglog(sizes, line, color=ORANGE, label="equation (1)")
    left.loglog(sizes, [us for _, us in copies], "o", color=BLUE, label="measured")
    left.axhline(fixed, color=INK, linestyle=":", linewidth=1)
    left.text(sizes[-1], 1.06 * fixed, "fixed cost", ha="right", va="bottom", fontsize=9)
    left.set(xlabel="bytes read and written", ylabel="microseconds", ylim=(0.7 * fixed, None))
    left.legend(loc="upper left")
    speeds = [size / us / 1e6 for size, us in copies]
    right.semilogx(
        sizes, [size / us / 1e6 for size, us in zip(sizes, line, strict=True)], color=ORANGE
    )
    right.semilogx(sizes, speeds, "o", color=BLUE)
    right.axhline(rate / 1e6, color=INK, linestyle=":", linewidth=1)
    right.text(sizes[0], rate / 1e6, "bandwidth", va="bottom", fontsize=9)
    right.set(xlabel="bytes read and written", ylabel="TB/s", ylim=(0, 1.12 * rate / 1e6))
    cite(figure, source)
    plt.show()


def tiles(measurement, rows: tuple, warps: tuple, kinds: dict[str, str], row_bytes: int) -> None:
    """Share of the copy's speed for each tile: one map for each kind of sine.

    Args:
        measurement: with a case 'copy', and one for each tile.
        rows, warps: of the tiles.
        kinds: title of a map -> what ends the names of its cases.
        row_bytes: bytes of a row.
    """
    figure, axes = plt.subplots(1, len(kinds), figsize=(4.4 * len(kinds), 3.5), squeeze=False)
    copy = measurement["copy"].median_us
    for ax, (title, ending) in zip(axes[0], kinds.items(), strict=True):
        share = [
            [100 * copy / measurement[f"{r} rows, {w} warps{ending}"].median_us for w in warps]
            for r in rows
        ]
        ax.imshow(share, cmap=SEQUENTIAL, vmin=30, vmax=100, aspect="auto")
        best = max(max(line) for line in share)
        for y, line in enumerate(share):
            for x, value in enumerate(line):
                color = ON_COLOR if value > 65 else "#f2f2f2"
                weight = "bold" if value == best else "normal"
                text = {"ha": "center", "va": "center", "color": color, "weight": weight}
                ax.text(x, y, f"{value:.1f}", **text)
        ax.set_xticks(range(len(warps)), [str(w) for w in warps])
        labels = [f"{r} ({r * row_bytes / 1024:g} KiB)" for r in rows]
        ax.set_yticks(range(len(rows)), labels)
        ax.set(xlabel="warps a program", title=title)
        ax.spines[:].set_visible(False)
    axes[0][0].set_ylabel("rows a program")
    figure.suptitle("% of the copy's speed", color=INK, fontsize=10)
    cite(figure, measurement.source)
    plt.show()


def waterfall(times: dict[str, float], limit: float, source: str, close: int = 5) -> None:
    """From the first time to the last: what each step took away, over the limit.

    On the left all of them, on the right the last `close` on a scale of their own.
    """
    names = list(times)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.8, 0.9 + 0.34 * len(names)), sharey=True, width_ratios=(1.2, 1)
    )
    values = list(times.values())
    for ax, first in ((left, 0), (right, len(names) - close)):
        longest = max(values[first:])
        for place, (us, before) in enumerate(zip(values, [values[0], *values], strict=False)):
            if place < first:
                continue
            ax.barh(place, us, color=GREEN if place == len(names) - 1 else BLUE, height=0.62)
            if us < before and place > first:
                ax.barh(place, before - us, left=us, color=ORANGE, alpha=0.75, height=0.62)
            elif us > before and place > first:
                ax.barh(place, us - before, left=before, color=RED, height=0.62)
            end = max(us, before) if place > first else us
            change = f"  ({us - before:+.1f})" if place else ""
            change = change.replace("-0.0", "0.0").replace("+0.0", "0.0")
            gap = 0.006 * (longest if ax is left else longest - limit)
            ax.text(end + gap, place, f"{us:.1f}{change}", va="center", fontsize=9)
        ax.axvline(limit, color=INK, linestyle=":", linewidth=1.2)
        ax.set(xlabel="device time in microseconds")
    left.set_yticks(range(len(names)), names)
    left.set(xlim=(0, 1.22 * max(values)), ylim=(len(names) - 0.5, -0.9))
    low, high = 0.97 * limit, max(values[-close:])
    right.set(xlim=(low, high + 0.3 * (high - low)))
    right.tick_params(left=False)
    right.set_title("the last steps, enlarged", loc="left")
    left.text(limit, -0.85, " copy", fontsize=9, va="top")
    right.text(limit, -0.85, " copy", fontsize=9, va="top")
    cite(figure, source)
    plt.show()


def shares_of_peers(shapes: dict[str, dict[str, float]], source: str) -> None:
    """Speed of each provider beside the copy's: `shapes[shape][provider]`, in per cent.

    Once whole, and once near 100 %. Providers stand a little above one another, since several may
    have the same share; of our own calls the first is drawn full, the others hollow.
    """
    providers = list(dict.fromkeys(name for shares in shapes.values() for name in shares))
    markers = "osD^vP*X<>"
    size = (9.4, 1.3 + 0.6 * len(shapes))
    figure, axes = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(1, 1.3))
    apart = 0.8 / len(providers)
    full = next((name for name in providers if name == "rope_kernels"), None)
    for number, provider in enumerate(providers):
        ours = provider.startswith("rope_kernels")
        lift = apart * (number - (len(providers) - 1) / 2)
        points = [
            (shares[provider], y + lift)
            for y, shares in enumerate(shapes.values())
            if provider in shares
        ]
        color = GREEN if ours else (BLUE, ORANGE, RED, PROGRAM_COLORS[3], INK)[number % 5]
        style = {"marker": markers[number % len(markers)], "color": color, "linestyle": "none"}
        style["fillstyle"] = "none" if ours and provider != full else "full"
        for ax in axes:
            ax.plot(*zip(*points, strict=True), label=provider, markersize=6, **style)
    for ax in axes:
        ax.axvline(100, color=INK, linestyle=":", linewidth=1)
        for y in range(1, len(shapes)):
            ax.axhline(y - 0.5, color=INK, linewidth=0.4)
    axes[0].set_yticks(range(len(shapes)), list(shapes))
    axes[0].set(xlabel="% of the copy's speed", ylim=(len(shapes) - 0.5, -0.5), xlim=(0, None))
    axes[1].set(xlabel="the same, near 100 %", xlim=(86, 104))
    axes[1].tick_params(left=False)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9
    )
    cite(figure, source)
    plt.show()


def host_and_device(host: dict[str, float], fixed: float, rate: float, sizes: list[int]) -> None:
    """Device time over the bytes of a call, and host times as lines across: where they meet."""
    _, ax = plt.subplots(figsize=(7.4, 3.4))
    ax.loglog(sizes, [fixed + size / rate for size in sizes], color=GREEN)
    ax.text(sizes[-1], fixed + sizes[-1] / rate, "device, by (1) ", ha="right", va="bottom")
    for place, (name, us) in enumerate(host.items()):
        ax.axhline(us, color=PROGRAM_COLORS[place % 4], linestyle=("--", "-.", ":", "-")[place % 4])
        below = any(us < y < 1.5 * us for y in (*host.values(), fixed))  # no room above
        y, va = (us / 1.06, "top") if below else (1.03 * us, "bottom")
        ax.text(sizes[0], y, f"host: {name}", va=va, fontsize=9)
        ax.plot((us - fixed) * rate, us, "o", color=INK)
    ax.set(xlabel="bytes read and written in a call", ylabel="microseconds", ylim=(2, None))
    plt.show()
