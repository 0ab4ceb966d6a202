"""Drawings of notebook 12: trainings, steps, frequencies, scores."""

import matplotlib.pyplot as plt
import numpy as np
from torch import Tensor

from . import style as draw
from .style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, SMALL, WIDTH

_LINES = ((BLUE, "-", 5.0), (ORANGE, "-", 2.0), (GREEN, "--", 2.0), (PURPLE, ":", 2.0))
_COLORS = {"PyTorch": BLUE, "rung 8": ORANGE, "package": GREEN, "none": GREY}
# a color and a dash for each scaling, and a width, because some lines lie on one another
_LOOKS = {
    "none": {"color": INK, "linestyle": "-", "linewidth": 1.6},
    "linear": {"color": RED, "linestyle": "-", "linewidth": 1.6},
    "NTK": {"color": BLUE, "linestyle": "--", "linewidth": 2.2},
    "yarn": {"color": ORANGE, "linestyle": "-", "linewidth": 2.2},
    "llama3": {"color": GREEN, "linestyle": "-.", "linewidth": 2.2},
}


def losses(curves: dict[str, list[float]], every: int, title: str, source: str = "") -> None:
    """Loss over steps, one line for each training; the first is drawn widest, below the others.

    `curves`: name -> losses, which are `every` steps apart.
    """
    figure, ax = plt.subplots(figsize=(8.0, 3.8))
    for (name, values), (color, line, width) in zip(curves.items(), _LINES, strict=False):
        steps = range(0, every * len(values), every)
        width = width if len(curves) > 1 else 2.0
        ax.plot(steps, values, line, color=color, linewidth=width, label=name)
    ax.set(xlabel="step", ylabel="loss in nats per byte", xlim=(0, None), ylim=(0, None))
    if len(curves) > 1:
        figure.legend(loc="outside lower center", ncols=4)
    ends = "; ".join(f"{name} from {v[0]:.2f} to {v[-1]:.2f}" for name, v in curves.items())
    draw.finish(figure, title, f"The loss over the steps of a training: {ends}.", source)


def steps(shares: dict[str, dict], title: str, source: str) -> None:
    """Time of a layer's step as bars: a panel for each layer, a group for eager and compiled.

    `shares`: layer -> "eager" and "compiled" -> rotation -> its `step_us`.
    """
    figure, axes = plt.subplots(1, len(shares), figsize=(8.0, 3.8))
    said = []
    for ax, (layer, ways) in zip(axes, shares.items(), strict=True):
        rows = [(how, name) for how in ("eager", "compiled") for name in ways[how]]
        places = [row + 0.6 * (how == "compiled") for row, (how, _) in enumerate(rows)]
        ms = [ways[how][name]["step_us"] / 1e3 for how, name in rows]
        labels = [f"{value:.3g}" for value in ms]
        colors = [_COLORS[name] for _, name in rows]
        draw.numbered_bars(ax, places, ms, colors, labels, room=1.17, fontsize=SMALL)
        names = [f"{how}, {name}" for how, name in rows]
        ax.set_yticks(places, names if ax is axes[0] else [])
        ax.set(xlabel="milliseconds", title=layer)
        words = (f"{name} {value}" for name, value in zip(names, labels, strict=True))
        said.append(f"{layer}, in milliseconds: " + "; ".join(words))
    draw.finish(figure, title, "Bars of the time of a step. " + ". ".join(said) + ".", source)


def kept_shares(turns: Tensor, shares: dict[str, Tensor], title: str) -> None:
    """The share of its frequency that each pair keeps, by its turns in the training length.

    `turns` has a value for each pair, from the fastest to the slowest, and so has each scaling.
    """
    figure, ax = plt.subplots(figsize=(WIDTH, 3.0))
    for name, share in shares.items():
        ax.plot(turns, share, label=name, marker="o", markersize=4, **_LOOKS[name])
    ax.set(xlabel="turns of a pair in 256 positions", ylabel="γ", ylim=(-0.08, 1.08))
    draw.log_ticks(ax, "x", [10, 1, 0.1, 0.01])
    ax.invert_xaxis()
    figure.legend(loc="outside lower center", ncols=len(shares))
    words = "A line for each scaling, over turns, which fall from 41 to 0.007. None is 1, linear "
    words += "0. NTK falls evenly, yarn between 32 turns and 1, llama3 between 4 and 1."
    draw.finish(figure, title, words)


def loss_by_position(
    panels: dict, bin_size: int, trained: int, reference: float, title: str, source: str
) -> None:
    """The loss at each position: a panel for each state of training, a line for each scaling.

    Args:
        panels: state -> scaling -> for each seed, the loss of each bin.
        bin_size: positions of a bin.
        trained: positions in training.
        reference: the loss at the last positions of the training length.
        title: what the figure shows.
        source: of the measurements.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 3.6))
    words = "A line for each scaling. Dotted: the training length, and the loss at its end."
    said = []
    for ax, (state, lines) in zip(axes, panels.items(), strict=True):
        ax.axhline(reference, color=PURPLE, linestyle=":", linewidth=1.4)
        told = "training length, and its loss" if ax is axes[0] else None
        ax.axvline(trained, color=PURPLE, linestyle=":", linewidth=1.4, label=told)
        losses = {name: np.mean(seeds, axis=0) for name, seeds in lines.items()}
        for name, loss in losses.items():
            at = (np.arange(len(loss)) + 0.5) * bin_size
            ax.plot(at, loss, label=name if ax is axes[0] else None, **_LOOKS[name])
        draw.log_ticks(ax, "x", [2**n for n in range(5, 12)])
        ax.set(xlabel="position", title=state)
        last = ", ".join(f"{name} {loss[-1]:.2f}" for name, loss in losses.items())
        said.append(f"{state}, at the last positions: {last}")
    axes[0].set_ylabel("loss in nats per byte")
    figure.legend(loc="outside lower center", ncols=3)
    draw.finish(figure, title, f"{words} {'; '.join(said)}.", source)


def scores_by_distance(scores: dict[str, Tensor], title: str) -> None:
    """Scores of one query and one key over their distance, for angles of several dtypes."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.0))
    looks = (
        {"color": INK, "linewidth": 1.2},
        {"color": ORANGE, "linewidth": 3.4, "drawstyle": "steps-mid"},
        {"color": RED, "linewidth": 1.6, "drawstyle": "steps-mid", "linestyle": "--"},
    )
    for (name, values), look in zip(scores.items(), looks, strict=False):
        ax.plot(values, label=name, **look)
    ax.set(xlabel="distance m − n (positions)", ylabel="score (no unit)")
    figure.legend(loc="outside lower center", ncols=len(scores))
    words = "Three lines. The exact score changes from each position to the next. With bf16 "
    words += "positions and with bf16 angles it is constant over 32 positions, and then it jumps."
    draw.finish(figure, title, words)
