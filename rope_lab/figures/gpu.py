"""A picture of a GPU: what is on the chip, what is beside it, how large and how fast each part is.

It shows an H200. Where its numbers come from:

- SMs, HBM's capacity and bandwidth: NVIDIA's data sheet of the H200.
- Warps, registers, L1 and shared memory of an SM: NVIDIA's tuning guide for Hopper.
- L2's capacity: what the driver reports.
- Bandwidth of L1: 32 banks of 4 bytes a cycle in each SM, at the data sheet's 1.98 GHz.
- Bandwidth of L2: what a copy reached whose buffers fit in it, from notebook 08's record. The
  cache can do at least that.
"""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from ..records import recorded
from . import style as draw
from .style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, WIDTH

SMS, CLOCK_GHZ, BANK_BYTES = 132, 1.98, 32 * 4  # clock: the highest; bytes: a cycle and SM
SOURCE = (
    "An NVIDIA H200, by its data sheet and the tuning guide for Hopper. L1: 128 bytes a cycle in "
    "each SM. L2: a copy within it, measured in notebook 08."
)


def draw_gpu() -> None:
    """Draw an H200 from left to right: one SM enlarged, all SMs, L2, HBM."""
    figure, ax = plt.subplots(figsize=(WIDTH, 4.6))
    l1, l2 = SMS * CLOCK_GHZ * BANK_BYTES / 1e3, _bandwidth_of_l2()  # TB/s
    both_ways = {"arrowstyle": "<|-|>", "mutation_scale": 13, "linewidth": 2}

    draw.frame(ax, 2.675, 3.05, 4.95, 5.2, BLUE, linewidth=2)
    draw.write(ax, 0.35, 5.4, "one SM", ha="left", fontsize=10)
    for warp in range(64):
        draw.box(ax, 0.43 + 0.1445 * (warp % 32), 4.9 - 0.25 * (warp // 32), 0.1, 0.2, BLUE)
    draw.write(ax, 2.67, 4.2, "up to 64 warps, 32 threads each", fontsize=10)
    draw.box(ax, 2.68, 3.25, 4.6, 1.0, GREEN, "registers\n256 KiB", fontsize=10)
    draw.arrow(ax, (0.75, 1.7), (0.75, 2.7), **both_ways)
    draw.write(ax, 1.0, 2.2, f"{l1:.0f} TB/s, all SMs together", ha="left", fontsize=10)
    draw.box(ax, 2.68, 1.15, 4.6, 1.0, ORANGE, "L1 and shared memory\n256 KiB", fontsize=10)

    for number in range(SMS):
        row, column = divmod(number, 11)
        x, y = 5.94 + 0.33 * column, 5.01 - 0.4 * row
        draw.box(ax, x, y, 0.28, 0.32, GREY if number else BLUE)
    for here, there in ((5.65, 5.17), (0.45, 4.85)):  # from the enlarged one to its place
        ax.plot([5.15, 5.8], [here, there], color=BLUE, linewidth=1)
    text = f"{SMS} SMs, together\n{SMS * 256 / 1024:.0f} MiB of registers"
    draw.write(ax, 7.6, 5.62, text, fontsize=10)

    draw.arrow(ax, (9.55, 2.85), (10.95, 2.85), **both_ways)
    draw.write(ax, 10.25, 3.1, f"{l2:.1f} TB/s\nor more", va="bottom", fontsize=10)
    draw.box(ax, 11.6, 2.85, 1.2, 4.8, ORANGE, "L2\n60 MB")
    look = {"boxstyle": "round,pad=0.05,rounding_size=0.2", "linestyle": "--", "linewidth": 1.2}
    ax.add_patch(FancyBboxPatch((0.05, 0.15), 12.3, 5.95, fill=False, edgecolor=INK, **look))
    draw.write(ax, 12.25, 5.75, "on the chip", ha="right", fontsize=10)

    draw.arrow(ax, (12.25, 2.85), (14.45, 2.85), **both_ways)
    draw.write(ax, 13.45, 3.1, "4.8 TB/s", va="bottom", fontsize=10)
    draw.box(ax, 15.52, 2.95, 2.05, 5.7, PURPLE, "HBM\n141 GB", fontsize=10)
    draw.write(ax, 15.52, 6.05, "beside the chip", fontsize=10)
    draw.bare(ax, (-0.05, 16.6), (0, 6.3))
    words = f"A block diagram: one SM enlarged, all {SMS} SMs, L2, HBM. Its labels: up to 64 warps,"
    words += " 32 threads each; registers 256 KiB; L1 and shared memory 256 KiB; from registers to "
    words += f"l1: {l1:.0f} TB/s, all SMs together; L2 60 MB; HBM 141 GB; from l2 to hbm: 4.8 TB/s;"
    words += f" from sm to l2: {l2:.1f} TB/s or more."
    draw.finish(figure, "Near memory is small and fast, HBM is large and far", words, SOURCE)


def _bandwidth_of_l2() -> float:
    """TB/s: the most that a copy reached over the same two buffers."""
    copies = recorded("08/cold-and-warm")
    pairs = zip(copies["bytes"], copies["warm"], strict=True)
    return max(2 * size / us for size, us in pairs) / 1e6
