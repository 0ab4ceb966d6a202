"""The picture of `lab.inspect`: each launch's limits, and what was predicted and measured."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, GREEN, ORANGE, PALE, WIDTH


def limits_of(
    limits: dict[str, float],
    longest: set[str],
    predicted_us: float,
    measured_us: float | None,
    title: str,
    source: str,
) -> None:
    """Bars of microseconds: each limit alone, those that bind in orange; and the times.

    Args:
        limits: label -> microseconds; `longest` has the labels of those that bind.
        predicted_us, measured_us: of the whole call; None where there is no GPU.
        title: what one should see.
        source: whose numbers the law takes.
    """
    bars = limits | {"predicted": predicted_us}
    colors = [ORANGE if label in longest else PALE for label in limits] + [BLUE]
    if measured_us is not None:
        bars["measured here"] = measured_us
        colors.append(GREEN)
    figure, ax = plt.subplots(figsize=(WIDTH, 1.3 + 0.4 * len(bars)))
    labels = [f"{us:.3g}" for us in bars.values()]
    draw.numbered_bars(ax, list(bars), list(bars.values()), colors, labels)
    ax.set(xlabel="microseconds, by each limit alone")
    draw.finish(figure, title, f"Bars of time: {draw.spoken(bars)}.", source)
