"""Drawings of notebook 02: the two ways to pair, and where a tensor's heads are in memory."""

import itertools

import matplotlib.pyplot as plt

from .style import BLUE, GREEN, ORANGE, color_key, finish, memory_order, pairing

_SHADES = (BLUE, ORANGE, GREEN)


def formats(sizes: dict[str, int]) -> None:
    """Blocks of d elements in memory order, a row for each format, colored by position.

    Args:
        sizes: letter -> size; at most three positions.
    """
    names = ("sbhd", "bshd", "bhsd")
    figure, axes = plt.subplots(len(names), 1, figsize=(8.0, 4.8))
    for ax, name in zip(axes, names, strict=True):
        letters = name[:3]
        blocks = list(itertools.product(*(range(sizes[letter]) for letter in letters)))
        labels = ["\n".join(f"{x}{i}" for x, i in zip(letters, at, strict=True)) for at in blocks]
        colors = [_SHADES[at[letters.index("s")]] for at in blocks]
        memory_order(ax, labels, colors, f"{name}, in memory order →")
    color_key(figure, {f"position {i}": _SHADES[i] for i in range(sizes["s"])})
    finish(
        figure,
        "A token's heads are adjacent in sbhd and bshd, not in bhsd",
        "Twelve blocks in memory: runs of one position are 4 long in sbhd, 2 in bshd, 1 in bhsd.",
    )


def pairings(d2: int) -> None:
    """The pairs of both conventions."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.3))
    pairing(axes[0], [(i, i + d2 // 2) for i in range(d2 // 2)], "half-split")
    pairing(axes[1], [(2 * i, 2 * i + 1) for i in range(d2 // 2)], "interleaved")
    finish(
        figure,
        "Half-split pairs are d2/2 apart, interleaved pairs are neighbors",
        f"An arc joins the two elements of a pair: 0 and {d2 // 2} on the left, 0 and 1 on the "
        "right.",
    )
