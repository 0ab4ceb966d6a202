"""Drawings of notebook 09 and its detour: rows of a program, host times over device times."""

import matplotlib.pyplot as plt

from .labels import Place, along, beside
from .style import BLUE, GREEN, INK, ORANGE, PURPLE, finish, inked


def rows(measured: dict[int, float], limits: dict[str, dict[int, float]], copy, title, source):
    """Measured times over the rows of a program, and what each limit alone would take.

    Args:
        measured: rows -> microseconds.
        limits: what the limit is -> rows -> microseconds; at most three.
        copy: microseconds of a copy.
        title: what it shows.
        source: of the measured times.
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.2))
    styles = (BLUE, "--", "s"), (PURPLE, ":", "^"), (GREEN, "-.", "D")
    for (name, times), (color, line, marker) in zip(limits.items(), styles, strict=False):
        ax.plot(list(times), list(times.values()), line, marker=marker, color=color, label=name)
    ax.plot(list(measured), list(measured.values()), "-o", color=ORANGE, label="measured")
    for count, us in measured.items():
        text = f"{us:.1f}" if us < 1000 else f"{us:.0f}"
        ax.annotate(
            text, (count, us), xytext=(0, 9), textcoords="offset points", ha="center",
            color=inked(ORANGE),
        )  # fmt: skip
    ax.axhline(copy, color=INK, linestyle=(0, (1, 3)), linewidth=1.2, label="a copy, measured")
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(measured), [str(count) for count in measured])
    ax.minorticks_off()
    highest = max(max(times.values()) for times in (measured, *limits.values()))
    ax.set(xlabel="rows per program", ylabel="microseconds", ylim=(0, 1.15 * highest))
    figure.legend(loc="outside lower center", ncols=3)
    words = "; ".join(f"{count} rows {us:.1f} \u00b5s" for count, us in measured.items())
    about = "Times over rows per program, and a line for each limit alone"
    finish(figure, title, f"{about}. Measured: {words}; a copy {copy:.1f} \u00b5s.", source)


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
