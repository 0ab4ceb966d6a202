"""The climb of notebooks 04 to 09 as one picture: what each rung took away."""

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import BLUE, GREEN, INK, ON_COLOR, ORANGE

NAMES = {
    "eager": "eager PyTorch",
    "rung 1": "1  naive",
    "rung 2": "2  a program owns its pairs",
    "rung 3": "3  a tile of rows",
    "rung 4": "4  backward by a flag",
    "rung 5": "5  one warp",
    "rung 6": "6  sine before the broadcast",
    "rung 7": "7  loads first",
    "package": "the package",
}


def climb(record) -> None:
    """A bar for each rung: the time that is left, and what the rung took away.

    Eager's bar is far longer than the others, and is cut off. Beside each bar: its time, and the
    per cent of copy bandwidth. `record` has a case "copy" and those of `NAMES`.
    """
    us = [record[case].median_us for case in NAMES]
    copy, end = record["copy"].median_us, 1.08 * max(us[1:])
    figure, ax = plt.subplots(figsize=(draw.WIDTH, 2.2 + 0.36 * len(us)))
    colors = [BLUE] * (len(us) - 1) + [GREEN]
    ax.barh(list(NAMES.values()), us, color=colors, height=0.62)
    for place in range(1, len(us) - 1):
        taken = max(0, min(us[place - 1], end) - us[place])
        ax.barh(place, taken, left=us[place], color=ORANGE, height=0.62)
    ax.text(end, 0, "cut off ", ha="right", va="center", color=ON_COLOR)
    ax.axvline(copy, color=INK, linestyle=":", linewidth=1.4)
    ax.text(copy, -0.9, " copy", va="center")
    ax.set(xlabel="device time in microseconds", xlim=(0, end), ylim=(len(us) - 0.5, -1.4))
    ax.tick_params(axis="y", length=0)
    right = ax.secondary_yaxis("right")
    table = [f"{time:5.1f} µs  {copy / time:6.1%} of a copy" for time in us]
    right.set_yticks(range(len(us)), table, family="monospace")
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    names = {"time left": BLUE, "taken away by this rung": ORANGE, "the package": GREEN}
    draw.color_key(figure, names)
    rungs = len(NAMES) - 2  # without eager and the package
    said = f"The last of {rungs} rungs has {100 * copy / us[rungs]:.1f} % of a copy's speed"
    draw.finish(figure, f"{said}, {us[0] / us[rungs]:.0f} times eager's", record.source)
