"""A picture of a GPU: what is on the chip, what is beside it, and how large each part is."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, PURPLE

# An H200's. SMs, capacity and bandwidth of HBM: its data sheet. Registers and L1 of an SM: NVIDIA's
# Hopper tuning guide. L2: what the driver reports.
H200 = {
    "warps": "up to 64 warps, 32 threads each",
    "registers": "registers: 256 KiB",
    "l1": "L1 and shared memory: 256 KiB",
    "l2": "L2\n60 MB",
    "hbm": "HBM\n141 GB",
    "l2-hbm": "4.8 TB/s",
}
PARTS = (*H200, "sm-l2")  # what a label can be given for; the last is the arrow between SMs and L2

_SMS = 132
_COLUMNS, _SIDE = 11, 0.34  # the SMs stand in rows of 11


def draw_gpu(
    labels: Mapping[str, str] | None = None, title: str = "Registers are near, HBM is far"
) -> None:
    """Draw an H200 from left to right: one SM enlarged, all SMs, L2, HBM.

    Args:
        labels: one more line of text for some of `PARTS`: what a kernel keeps there, or what it
            sends along an arrow. For example `{"l2-hbm": "2 x 32 MiB"}`.
        title: the conclusion that the picture is to show.

    Raises:
        ValueError: a label is for a part that the picture does not have.
    """
    labels = dict(labels or {})
    if strange := set(labels) - set(PARTS):
        raise ValueError(f"there is no part {min(strange)!r}; parts are {', '.join(PARTS)}")

    def said(part: str) -> str:
        return "\n".join(text for text in (H200.get(part), labels.get(part)) if text)

    _, ax = plt.subplots(figsize=(9.4, 3.9))
    _enlarged_sm(ax, said)
    _all_sms(ax)
    _memory(ax, (9.65, 0.45, 1.35, 4.1), ORANGE, said("l2"))
    _memory(ax, (13.1, 0.0, 1.9, 5.0), PURPLE, said("hbm"))
    _arrow(ax, 8.85, 9.6, said("sm-l2"))
    _arrow(ax, 11.2, 13.05, said("l2-hbm"))
    ax.add_patch(  # the chip
        FancyBboxPatch(
            (-0.15, 0.1), 11.3, 5.2, boxstyle="round,pad=0.05,rounding_size=0.2", fill=False,
            edgecolor=INK, linestyle="--", linewidth=1.2,
        )
    )  # fmt: skip
    ax.text(-0.05, 5.05, "on the chip", va="center", fontsize=9.5)
    ax.text(14.05, -0.3, "beside the chip", ha="center", va="center", fontsize=9.5)
    ax.set_title(title, loc="left")
    ax.set(xlim=(-0.3, 15.15), ylim=(-0.5, 5.45))
    ax.axis("off")
    plt.show()


def _enlarged_sm(ax: Axes, said) -> None:
    """One SM as large as its text, and two lines to its place among the others."""
    ax.add_patch(Rectangle((0.05, 0.45), 4.0, 4.1, fill=False, edgecolor=BLUE, linewidth=2))
    ax.text(0.2, 4.3, "one SM", va="center", fontsize=10)
    rows = (("warps", BLUE, 3.05), ("registers", GREEN, 1.85), ("l1", ORANGE, 0.65))
    for part, color, bottom in rows:
        ax.add_patch(Rectangle((0.2, bottom), 3.7, 1.0, color=color, linewidth=0))
        ax.text(
            2.05, bottom + 0.5, said(part), color=ON_COLOR, ha="center", va="center", fontsize=9.5
        )
    for high in (0.45, 4.55):  # to the first SM of the grid, whose upper left corner is at 4.6, 4.3
        end = 4.3 - _SIDE * (high < 1) + 0.02
        ax.plot([4.05, 4.62], [high, end], color=BLUE, linewidth=1)


def _all_sms(ax: Axes) -> None:
    for number in range(_SMS):
        row, column = divmod(number, _COLUMNS)
        place = (4.65 + _SIDE * 1.1 * column, 4.3 - _SIDE * (row + 1) + 0.04)
        first = number == 0
        ax.add_patch(
            Rectangle(
                place, 0.9 * _SIDE, 0.8 * _SIDE, facecolor=BLUE, linewidth=1.5 if first else 0,
                edgecolor=INK, alpha=1 if first else 0.55,
            )
        )  # fmt: skip
    ax.text(6.7, 4.5, f"{_SMS} SMs", ha="center", va="center", fontsize=10)


def _memory(ax: Axes, place: tuple[float, float, float, float], color: str, text: str) -> None:
    left, bottom, width, height = place
    ax.add_patch(Rectangle((left, bottom), width, height, color=color, linewidth=0))
    ax.text(
        left + width / 2, bottom + height / 2, text, color=ON_COLOR, ha="center", va="center",
        fontsize=10.5,
    )  # fmt: skip


def _arrow(ax: Axes, left: float, right: float, text: str) -> None:
    ax.add_patch(
        FancyArrowPatch(
            (left, 2.5), (right, 2.5), arrowstyle="<|-|>", mutation_scale=13, color=INK,
            linewidth=2, shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
    ax.text((left + right) / 2, 2.75, text, ha="center", va="bottom", fontsize=10)
