"""Drawings of notebook 13: who computes which scores, and what a rank takes."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from .style import BLUE, ORANGE, PLATE, PROGRAM_COLORS, SMALL, WIDTH, color_key, finish


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


def time_of_a_rank(
    law: dict[str, dict[int, float]], measured: dict[str, dict[int, float]], title: str, source: str
):
    """Time over the number of ranks, both in powers of two: the law as lines, ranks as points.

    Args:
        law: call -> microseconds by number of ranks, at most two calls.
        measured: the same where it was measured.
        title: what the figure shows.
        source: of the measured times.
    """
    figure, ax = plt.subplots(figsize=(8.0, 3.8))
    for (call, times), color in zip(law.items(), (BLUE, ORANGE), strict=False):
        ax.plot(*zip(*times.items(), strict=True), color=color, label=f"{call}, the law")
        ax.plot(*zip(*measured[call].items(), strict=True), "o", color=color, label="measured")
        whole = times[1]
        ax.plot(list(times), [whole / n for n in times], ":", color=color, linewidth=1)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ranks = list(next(iter(law.values())))
    ax.set_xticks(ranks, [str(n) for n in ranks])
    ax.set_yticks([8, 16, 32, 64, 128], ["8", "16", "32", "64", "128"])
    ax.set(xlabel="ranks", ylabel="microseconds of one rank")
    figure.legend(loc="outside lower center", ncols=2)
    said = "; ".join(
        f"{call}, {what}, in microseconds: "
        + ", ".join(f"{us:.1f} for {n}" for n, us in times[call].items())
        for call in law
        for what, times in (("by the law", law), ("measured", measured))
    )
    words = f"The time of one rank over the number of ranks, both axes in powers of two. {said}. "
    finish(figure, title, words + "Dotted lines fall as 1 over the number of ranks.", source)
