"""Drawings of notebook 04: who reads what after whom, when a tensor is rotated in place."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ON_COLOR,
    ORANGE,
    PROGRAM_COLORS,
    RED,
    SMALL,
    WIDTH,
    color_key,
    describe,
    finish,
)

_STEPS = {"load own": BLUE, "load partner": ORANGE, "compute": GREY, "store": GREEN}
_LENGTHS = {"load own": 1.1, "load partner": 1.5, "compute": 1.2, "store": 0.8}


def who_reads_whom(ax: Axes, owner: list[int], d: int, title: str) -> None:
    """Elements colored by owner, and an arrow from each element to the partner that loads it.

    Owners take turns in the order of their numbers. An arrow is red and thick where the value that
    it carries has been overwritten by then. Above: to the first halves; below: to the second ones.
    """
    for i, number in enumerate(owner):
        color = PROGRAM_COLORS[number % len(PROGRAM_COLORS)]
        ax.add_patch(Rectangle((i - 0.45, -0.6), 0.9, 1.2, color=color, linewidth=0))
        ax.text(i, 0, f"{i}\nP{number}", color=ON_COLOR, ha="center", va="center", fontsize=SMALL)
        in_first_half = i % d < d // 2
        source = i + d // 2 if in_first_half else i - d // 2
        late = owner[source] < number
        side = 0.65 if in_first_half else -0.65
        arrow = FancyArrowPatch(
            (source, side), (i, side), connectionstyle="arc3,rad=0.45", arrowstyle="-|>",
            mutation_scale=11, color=RED if late else INK, linewidth=2.2 if late else 1,
        )  # fmt: skip
        ax.add_patch(arrow)
    ax.set(xlim=(-0.7, len(owner) - 0.3), ylim=(-0.95 - 0.12 * d, 0.95 + 0.12 * d), aspect="equal")
    ax.set_title(title, loc="left")
    ax.axis("off")


def show_owners(owners: dict[str, list[int]], d: int) -> None:
    """One `who_reads_whom` beside the other; `owners` has the owner of each element, by title."""
    width = WIDTH / len(owners)
    height = width * (1.9 + 0.24 * d) / (d + 0.4)  # as who_reads_whom draws it, to scale
    figure, axes = plt.subplots(1, len(owners), figsize=(WIDTH, height + 0.8), squeeze=False)
    for ax, (title, owner) in zip(axes[0], owners.items(), strict=True):
        who_reads_whom(ax, owner, d, title)
    reading_key(figure)
    late = {title: _late(owner, d) for title, owner in owners.items()}
    finish(
        figure,
        "",
        f"Rows of {d} elements, colored by the program that owns them, with an arrow from each "
        "element to the partner that loads it. Arrows are red where the value has been "
        f"overwritten: {', '.join(f'{count} ({title})' for title, count in late.items())}.",
    )


def _late(owner: list[int], d: int) -> int:
    """How many elements load a partner that an earlier program has overwritten."""
    return sum(owner[(i + d // 2) % d] < owner[i] for i in range(len(owner)))


def reading_key(figure: Figure) -> None:
    """What the arrows of `who_reads_whom` mean."""
    color_key(
        figure, {"loads the old value: right": INK, "loads too late: already overwritten": RED}
    )


def warp_timeline(ax: Axes, starts: tuple[float, float], title: str) -> None:
    """Two warps of one program over time; the second starts when `starts` says."""
    times = []
    for warp, start in enumerate(starts):
        time = start
        for step, color in _STEPS.items():
            length = _LENGTHS[step]
            ax.add_patch(Rectangle((time, 0.62 - warp), length - 0.04, 0.76, color=color))
            ax.text(
                time + length / 2, 1 - warp, step.replace(" ", "\n"), color=ON_COLOR, ha="center",
                va="center", fontsize=SMALL,
            )  # fmt: skip
            times.append(time)
            time += length
    stored, loaded = times[3] + _LENGTHS["store"], times[5]
    if loaded > stored:
        arrow = FancyArrowPatch(
            (stored, 0.62), (loaded + 0.3, 0.38), arrowstyle="-|>", mutation_scale=14, color=RED,
            linewidth=2.2,
        )  # fmt: skip
        ax.add_patch(arrow)
    ax.set(xlim=(-0.1, 11), ylim=(-0.5, 1.5), xticks=[], xlabel="time →", title=title)
    ax.set_yticks([1, 0], ["warp 0", "warp 1"])
    ax.spines["left"].set_visible(False)
    ax.tick_params(left=False)
    describe(
        ax.figure,
        "Timelines of two warps, each of which loads its own element, loads its partner, computes "
        "and stores. An arrow marks a load that comes after the other warp's store.",
    )
