"""The drawing of notebook 11: bytes of two kernels and of one."""

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import BLUE, LIGHT, ON_COLOR, ORANGE

_KERNELS = {  # row -> kernels, one after the other
    "two kernels": ["norm forward", "rope forward", "rope backward", "norm backward"],
    "fused": ["fused forward", "fused backward"],
}


def traffic(units: dict[str, int], title: str) -> None:
    """Units that each kernel moves, as bars: two kernels above, the fused one below.

    `units`: kernel and direction, as in `_KERNELS` -> how many the notebook counts.
    """
    colors = {"forward": BLUE, "backward": ORANGE}
    figure, ax = plt.subplots(figsize=(8.0, 3.3))
    for row, kernels in _KERNELS.items():
        begin = 0
        for name in kernels:
            kernel, direction = name.split()
            color = colors[direction]
            bar = ax.barh(row, units[name], left=begin, color=color, edgecolor=LIGHT)
            words = f"{kernel} {units[name]}\n{direction}"
            ax.bar_label(bar, [words], label_type="center", color=ON_COLOR)
            begin += units[name]
        ax.bar_label(bar, [f"{begin} units"], padding=5)
    ax.set(xlim=(0, 10.2), xlabel="units: one is the bytes of q and k, once")
    ax.invert_yaxis()
    draw.color_key(figure, colors)
    draw.finish(figure, title)
