"""A picture of a GPU: what is on the chip, what is beside it, how large and how fast each part is.

It shows an H200. Where its numbers come from:

- SMs, HBM's capacity and bandwidth: NVIDIA's data sheet of the H200.
- Warps, registers, L1 and shared memory of an SM: NVIDIA's tuning guide for Hopper.
- L2's capacity: what the driver reports.
- Bandwidth of L1: 32 banks of 4 bytes a cycle in each SM, at the data sheet's 1.98 GHz.
- Bandwidth of L2: what a copy reached whose buffers fit in it, from notebook 08's record. The
  cache can do at least that.
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from ..records import recorded
from .style import BLUE, GREEN, GREY, INK, ON_COLOR, ORANGE, PURPLE, SMALL, WIDTH, finish

SMS, CLOCK_GHZ, BANK_BYTES = 132, 1.98, 32 * 4  # clock: the highest; bytes: a cycle and SM
H200 = {
    "warps": "up to 64 warps, 32 threads each",
    "registers": "registers\n256 KiB",
    "l1": "L1 and shared memory\n256 KiB",
    "registers-l1": f"{SMS * CLOCK_GHZ * BANK_BYTES / 1e3:.0f} TB/s, all SMs together",
    "l2": "L2\n60 MB",
    "hbm": "HBM\n141 GB",
    "l2-hbm": "4.8 TB/s",
}
PARTS = (*H200, "sm-l2")  # what a label can be given for; the last is the arrow between SMs and L2
SOURCE = (
    "An NVIDIA H200, by its data sheet and the tuning guide for Hopper. L1: 128 bytes a cycle in "
    "each SM. L2: a copy within it, measured in notebook 08."
)

_COLUMNS, _GRID, _SIDE = 11, (5.8, 0.45), (0.33, 0.4)  # of the SMs: corner, size of a cell


def draw_gpu(
    labels: Mapping[str, str] | None = None,
    title: str = "Near memory is small and fast, HBM is large and far",
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
    facts = H200 | {"sm-l2": f"{_bandwidth_of_l2():.1f} TB/s\nor more"}

    def said(part: str) -> str:
        return "\n".join(text for text in (facts[part], labels.get(part)) if text)

    figure, ax = plt.subplots(figsize=(WIDTH, 4.6))
    _enlarged_sm(ax, said)
    _all_sms(ax)
    _box(ax, (11.0, 0.45, 1.2, 4.8), ORANGE, said("l2"))
    _box(ax, (14.5, 0.1, 2.05, 5.7), PURPLE, said("hbm"))
    _arrow(ax, (9.55, 2.85), (10.95, 2.85))
    _arrow(ax, (12.25, 2.85), (14.45, 2.85))
    ax.text(10.25, 3.1, said("sm-l2"), ha="center", va="bottom", fontsize=10)
    ax.text(13.45, 3.1, said("l2-hbm"), ha="center", va="bottom", fontsize=10)
    ax.add_patch(  # the chip
        FancyBboxPatch(
            (0.05, 0.15), 12.3, 5.95, boxstyle="round,pad=0.05,rounding_size=0.2", fill=False,
            edgecolor=INK, linestyle="--", linewidth=1.2,
        )
    )  # fmt: skip
    ax.text(12.25, 5.75, "on the chip", ha="right", va="center", fontsize=10)
    ax.text(15.52, 6.05, "beside the chip", ha="center", va="center", fontsize=10)
    ax.set(xlim=(-0.05, 16.6), ylim=(0, 6.3))
    ax.axis("off")
    parts = "; ".join(
        f"from {part.replace('-', ' to ')}: " * ("-" in part) + " ".join(said(part).split())
        for part in PARTS
    )
    words = f"A block diagram: one SM enlarged, all {SMS} SMs, L2, HBM. Its labels: {parts}."
    finish(figure, title, words, SOURCE)


def _bandwidth_of_l2() -> float:
    """TB/s: the most that a copy reached over the same two buffers."""
    copies = recorded("08/cold-and-warm")
    pairs = zip(copies["bytes"], copies["warm"], strict=True)
    return max(2 * size / us for size, us in pairs) / 1e6


def _enlarged_sm(ax: Axes, said) -> None:
    """One SM as large as its text, and two lines to its place among the others."""
    ax.add_patch(Rectangle((0.2, 0.45), 4.95, 5.2, fill=False, edgecolor=BLUE, linewidth=2))
    ax.text(0.35, 5.4, "one SM", va="center", fontsize=10)
    for warp in range(64):
        row, column = divmod(warp, 32)
        place = (0.38 + 0.1445 * column, 4.8 - 0.25 * row)
        ax.add_patch(Rectangle(place, 0.1, 0.2, color=BLUE, linewidth=0))
    ax.text(2.67, 4.2, said("warps"), ha="center", va="center", fontsize=10)
    _box(ax, (0.38, 2.75, 4.6, 1.0), GREEN, said("registers"))
    _box(ax, (0.38, 0.65, 4.6, 1.0), ORANGE, said("l1"))
    _arrow(ax, (0.75, 1.7), (0.75, 2.7))
    ax.text(1.0, 2.2, said("registers-l1"), va="center", fontsize=10)
    left, bottom = _GRID
    top = bottom + SMS // _COLUMNS * _SIDE[1]
    for here, there in ((5.65, top - 0.06), (0.45, top - _SIDE[1])):
        ax.plot([5.15, left], [here, there], color=BLUE, linewidth=1)


def _all_sms(ax: Axes) -> None:
    (left, bottom), (width, height) = _GRID, _SIDE
    rows = SMS // _COLUMNS
    for number in range(SMS):
        row, column = divmod(number, _COLUMNS)
        place = (left + width * column, bottom + height * (rows - 1 - row))
        look = {"facecolor": BLUE, "edgecolor": INK, "linewidth": 1.5} if number == 0 else {}
        look = look or {"facecolor": GREY, "linewidth": 0}
        ax.add_patch(Rectangle(place, 0.85 * width, 0.8 * height, **look))
    middle = left + _COLUMNS * width / 2
    registers = SMS * 256 / 1024  # MiB
    text = f"{SMS} SMs, together\n{registers:.0f} MiB of registers"
    ax.text(middle, 5.62, text, ha="center", va="center", fontsize=10)


def _box(ax: Axes, place: tuple[float, float, float, float], color: str, text: str) -> None:
    left, bottom, width, height = place
    ax.add_patch(Rectangle((left, bottom), width, height, color=color, linewidth=0))
    ax.text(
        left + width / 2, bottom + height / 2, text, color=ON_COLOR, ha="center", va="center",
        fontsize=10 if width > 1.5 else SMALL,
    )  # fmt: skip


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="<|-|>", mutation_scale=13, color=INK, linewidth=2, shrinkA=0,
            shrinkB=0,
        )
    )  # fmt: skip
