"""A drawing of notebook 13: who computes which scores."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from .style import PLATE, PROGRAM_COLORS, SMALL, WIDTH, color_key, finish


def causal_work(owners: dict[str, Sequence[int]], work: dict[str, Sequence[float]], title: str):
    """The causal mask, each query's row in the color of its rank; below, the work of each rank.

    Args:
        owners: order -> the rank of each token.
        work: order -> the scores of each rank, relative to their mean.
        title: what the figure shows.
    """
    figure, axes = plt.subplots(
        2, len(owners), figsize=(WIDTH, 4.6), height_ratios=(2.4, 1), sharey="row"
    )
    ranks = len(next(iter(work.values())))
    colors = ListedColormap([PLATE, *PROGRAM_COLORS[:ranks]])
    for (mask, bars), (order, owner) in zip(axes.T, owners.items(), strict=True):
        s = len(owner)
        rows = np.tril(np.ones((s, s))) * (1 + np.asarray(owner))[:, None]
        mask.pcolormesh(rows, cmap=colors, vmin=0, vmax=ranks, edgecolors=PLATE, linewidth=0.8)
        mask.invert_yaxis()
        mask.set(title=order, xlabel="key", aspect="equal", xticks=[], yticks=[])
        places = range(ranks)
        bars.bar(places, work[order], color=PROGRAM_COLORS[:ranks], width=0.8)
        for place, share in zip(places, work[order], strict=True):
            bars.text(place, share + 0.2, f"{share:.2f}", ha="center", fontsize=SMALL)
        bars.set(xticks=[], yticks=[0, 1, 2], ylim=(0, 2.6))
    axes[0, 0].set_ylabel("query")
    axes[1, 0].set_ylabel("work / mean")
    color_key(figure, {f"rank {r}": PROGRAM_COLORS[r] for r in range(ranks)})
    words = "A triangle of scores for each order, a row in the color of the rank that has the "
    words += "query, and a bar for the work of each rank, relative to the mean. " + "; ".join(
        f"{order}: " + ", ".join(f"{share:.2f}" for share in shares)
        for order, shares in work.items()
    )
    finish(figure, title, words + ".")
