"""The picture of `lab.inspect`: each launch's limits, and what was predicted and measured."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from ..grading.inspect.limits import binding
from . import style as draw
from .style import BLUE, GREEN, ORANGE, PALE, WIDTH

if TYPE_CHECKING:
    from ..grading.inspect.inspection import Inspection


def limits_of(found: "Inspection") -> None:
    """Bars of microseconds: each limit alone, the longest of a launch in orange."""
    bars, colors = {}, []
    for launch, times in zip(found.launches, found.times, strict=True):
        longest = binding(times)
        for limit, us in times.items():
            prefix = f"{launch.kernel}: " if len(found.launches) > 1 else ""
            bars[prefix + limit] = us
            colors.append(ORANGE if limit == longest else PALE)
    if not bars:
        return
    bars["predicted"] = found.predicted_us
    colors.append(BLUE)
    if found.measured_us is not None:
        bars["measured here"] = found.measured_us
        colors.append(GREEN)
    figure, ax = plt.subplots(figsize=(WIDTH, 1.3 + 0.4 * len(bars)))
    draw.numbered_bars(
        ax, list(bars), list(bars.values()), colors, [f"{us:.3g}" for us in bars.values()]
    )
    ax.set(xlabel="microseconds, by each limit alone")
    words = f"Bars of time: {draw.spoken(bars)}."
    draw.finish(figure, f"What binds: {found.binding}", words, f"The law of {found.gpu.origin}.")
