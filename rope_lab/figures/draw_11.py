"""The drawing of notebook 11: bytes of two kernels and of one."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, ORANGE, SMALL

_MOVED = {  # by row and kernel: what each reads, and last what it writes
    "two kernels": {
        "norm forward": "x n",
        "rope forward": "n y",
        "rope backward": "dy dn",
        "norm backward": "dn x dx",
    },
    "fused": {"fused forward": "x y", "fused backward": "dy x dx"},
}
_LABELS = {"norm": "norm", "rope": "RoPE", "fused": "norm and RoPE"}


def traffic(units: dict[str, int], title: str) -> None:
    """Units that each kernel moves, as boxes of one unit: two kernels above, the fused one below.

    `units`: kernel and direction, as in `_MOVED` -> how many the notebook counts.
    """
    colors = {"forward": BLUE, "backward": ORANGE}
    figure, ax = plt.subplots(figsize=(8.0, 3.3))
    places = 0, 1.3
    for place, kernels in zip(places, _MOVED.values(), strict=True):
        begin = 0
        for name, tensors in kernels.items():
            kernel, direction = name.split()
            *reads, writes = tensors.split()
            words = [f"read {tensor}" for tensor in reads] + [f"write {writes}"]
            assert len(words) == units[name]
            starts = range(begin, begin + units[name])
            draw.spans(ax, place, starts, 1, colors[direction], words)
            ax.text(begin + 0.03, place - 0.42, _LABELS[kernel], va="bottom", fontsize=SMALL + 1)
            begin += units[name]
        ax.text(begin + 0.12, place, f"{begin} units", va="center")
    ax.set_yticks(places, _MOVED)
    ax.set(xlim=(0, 10.2), ylim=(1.8, -0.8), xlabel="units: one is the bytes of q and k, once")
    ax.set_xticks(range(10))
    draw.color_key(figure, colors)
    rows = "; ".join(
        f"{row}: " + ", ".join(f"{name} {units[name]}" for name in kernels)
        for row, kernels in _MOVED.items()
    )
    draw.finish(figure, title, f"Two rows of boxes, one for each unit. {rows}.")
