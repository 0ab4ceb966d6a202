"""Drawings of notebook 09 and its detour: rows of a program, host times over device times."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, GREEN, INK, ORANGE, PURPLE


def rows(measured: dict[int, float], limits: dict[str, dict[int, float]], copy, title, source):
    """Measured times over the rows of a program, and what each limit alone would take.

    Times are in microseconds. `measured`: rows -> time. `limits`: name -> rows -> time.
    """
    figure, ax = plt.subplots(figsize=(8.0, 4.2))
    styles = (BLUE, "--", "s"), (PURPLE, ":", "^"), (GREEN, "-.", "D")
    for (name, times), (color, line, marker) in zip(limits.items(), styles, strict=False):
        ax.plot(list(times), list(times.values()), line, marker=marker, color=color, label=name)
    ax.plot(list(measured), list(measured.values()), "-o", color=ORANGE, label="measured")
    for count, us in measured.items():
        text, ink = f"{us:.1f}" if us < 1000 else f"{us:.0f}", draw.inked(ORANGE)
        ax.annotate(text, (count, us), (0, 9), textcoords="offset points", ha="center", color=ink)
    ax.axhline(copy, color=INK, linestyle=(0, (1, 3)), linewidth=1.2, label="a copy, measured")
    draw.log_ticks(ax, "x", list(measured))
    highest = max(max(times.values()) for times in (measured, *limits.values()))
    ax.set(xlabel="rows per program", ylabel="microseconds", ylim=(0, 1.15 * highest))
    figure.legend(loc="outside lower center", ncols=3)
    words = "; ".join(f"{count} rows {us:.1f} \u00b5s" for count, us in measured.items())
    about = "Times over rows per program, and a line for each limit alone"
    draw.finish(figure, title, f"{about}. Measured: {words}; a copy {copy:.1f} \u00b5s.", source)


def host_and_device(
    host: dict[str, float], fixed: float, rate: float, sizes: list[int], title: str
) -> None:
    """Device time over the bytes of a call, and host times as lines across: where they meet."""
    figure, ax = plt.subplots(figsize=(8.0, 4.0))
    law = [fixed + size / rate for size in sizes]
    ax.loglog(sizes, law, color=GREEN, label="device, by the time law")
    meets = []
    styles = (BLUE, "--"), (ORANGE, "-."), (PURPLE, ":")  # green is the device
    for (name, us), (color, line) in zip(host.items(), styles, strict=False):
        ax.axhline(us, color=color, linestyle=line, label=f"host: {name}")
        if us > fixed:
            size = (us - fixed) * rate
            ax.plot(size, us, "o", color=INK)
            meets.append(f"{name} at {size / 1e6:.0f} MB")
    ax.set(xlabel="bytes read and written by a call", ylabel="microseconds")
    ax.set_ylim(bottom=min(fixed, *host.values()) / 2)
    figure.legend(loc="outside lower center", ncols=2)
    words = "Device time over bytes, flat and then rising, and host times as lines across. "
    draw.finish(figure, title, words + (f"They meet: {', '.join(meets)}." if meets else ""))
