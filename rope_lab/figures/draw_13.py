"""A drawing of notebook 13: who computes which scores."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from . import style as draw
from .style import PLATE, PROGRAM_COLORS, SMALL, WIDTH


def causal_work(owners: dict[str, Sequence[int]], work: dict[str, Sequence[float]], title: str):
    """The causal mask, each query's row in the color of its rank; below, the work of each rank.

    `owners`: order -> the rank of each token. `work`: order -> the scores of each rank over their
    mean.
    """
    figure, axes = plt.subplots(
        2, len(owners), figsize=(WIDTH, 4.6), height_ratios=(2.4, 1), sharey="row"
    )
    ranks = len(next(iter(work.values())))
    colors, said = PROGRAM_COLORS[:ranks], []
    for (mask, bars), (order, owner) in zip(axes.T, owners.items(), strict=True):
        rows = np.tril(np.ones((len(owner), len(owner)))) * (1 + np.array(owner))[:, None]
        cmap = ListedColormap([PLATE, *colors])
        mask.pcolormesh(rows, cmap=cmap, vmin=0, vmax=ranks, edgecolors=PLATE, linewidth=0.8)
        mask.invert_yaxis()
        mask.set(title=order, xlabel="key", aspect="equal", xticks=[], yticks=[])
        drawn = bars.bar(range(ranks), work[order], color=colors, width=0.8)
        bars.bar_label(drawn, fmt="%.2f", padding=3, fontsize=SMALL)
        bars.set(xticks=[], yticks=[0, 1, 2], ylim=(0, 2.6))
        said.append(f"{order}: " + ", ".join(f"{share:.2f}" for share in work[order]))
    axes[0, 0].set_ylabel("query")
    axes[1, 0].set_ylabel("work / mean")
    draw.color_key(figure, {f"rank {rank}": color for rank, color in enumerate(colors)})
    words = "A triangle of scores for each order, a row in the color of the rank that has the "
    words += "query, and a bar for the work of each rank, relative to the mean. "
    draw.finish(figure, title, f"{words}{'; '.join(said)}.")
