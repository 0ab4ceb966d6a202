"""How long the kernel takes, edit by edit."""

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, GREY, INK
from ..records import Measurement, recorded
from ..rungs.measured import COPY, KEY

BEFORE = 2  # the rung of the notebook's first kernel
RUNG_OF = {1: 3, 2: 5, 3: 6}  # after each edit; between them, rung 4 gets a flag


def time_after(edits: int, measured: Measurement) -> float:
    """Microseconds that the notebook's kernel takes after this many edits."""
    return measured[f"rung {RUNG_OF.get(edits, BEFORE)}"].median_us


def times(edits: int = 0) -> None:
    """Draw the recorded times up to an edit. The edits after it have a question mark."""
    measured = recorded(KEY)
    done = [time_after(number, measured) for number in range(edits + 1)]
    copy, to_do = measured[COPY].median_us, len(RUNG_OF) - edits
    names = ["the kernel", *(f"edit {number}" for number in RUNG_OF), "a memory copy"]
    figure, ax = plt.subplots(figsize=(draw.WIDTH, 3.3))
    bars = ax.barh(
        names,
        [*done, *[0] * to_do, copy],
        color=[*[BLUE] * edits, GREEN, *[GREEN] * to_do, GREY],
        height=0.62,
    )
    ax.bar_label(bars, [f"{us:.0f} µs" if us else "?" for us in bars.datavalues], padding=5)
    ax.axvline(copy, color=INK, linestyle=":", linewidth=1.4)
    ax.invert_yaxis()
    # The axis stays the same, so that the bars can be compared from picture to picture.
    ax.set(xlabel="time on the GPU in microseconds (shorter is better)", xlim=(0, 1.1 * done[0]))
    ax.tick_params(axis="y", length=0)
    compared = f", where a memory copy takes {copy:.0f} µs" if to_do else ", as long as a copy"
    draw.finish(figure, f"{done[-1]:.0f} µs{compared}", f"Recorded: {measured.origin}")
