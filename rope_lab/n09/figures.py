"""The order of a warp's instructions; the climb of notebooks 04 to 09, rung by rung."""

import matplotlib.pyplot as plt

from ..compiler.compile import Compiled
from ..compiler.stages import executed, kernel_lines
from ..figures import style as draw
from ..figures.style import BLUE, GREEN, INK, ON_COLOR, ORANGE

NAMES = {
    "eager": "eager PyTorch",
    "rung 1": "1  naive",
    "rung 2": "2  a tile of rows",
    "rung 3": "3  one warp",
    "rung 4": "4  backward by a flag",
    "rung 5": "5  sine before the broadcast",
    "rung 6": "6  loads first",
    "rung 7": "7  any input",
}


def climb(record) -> None:
    """A bar for each rung: its time, and what the rung took away.

    Eager's bar is far longer than the others, and is cut off. Next to each bar are its time and the
    per cent of copy bandwidth. `record` has a case "copy" and those of `NAMES`.
    """
    us = [record[case].median_us for case in NAMES]
    copy, end = record["copy"].median_us, 1.08 * max(us[1:])
    figure, ax = plt.subplots(figsize=(draw.WIDTH, 2.2 + 0.36 * len(us)))
    ax.barh(list(NAMES.values()), us, color=BLUE, height=0.62)
    for place in range(1, len(us)):
        taken = max(0, min(us[place - 1], end) - us[place])
        ax.barh(place, taken, left=us[place], color=ORANGE, height=0.62, **draw.HATCHED)
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
    names = {"time of this kernel": BLUE, "taken away by this rung": ORANGE}
    draw.color_key(figure, names, hatched=["taken away by this rung"])
    rungs = len(NAMES) - 1  # without eager
    said = f"The last of {rungs} rungs reaches {copy / us[-1]:.0%} of a copy's speed"
    draw.finish(figure, f"{said}, {us[0] / us[-1]:.0f} times eager's", record.source)


def order(kernels: dict[str, Compiled], title: str) -> None:
    """The instructions that a warp executes, in order: loads, those of sines, and stores.

    Each of the three has a height of its own. Loads that come close together are counted, because
    as lines they are one.
    """
    figure, ax = plt.subplots(figsize=(draw.WIDTH, 1.5 + 0.75 * len(kernels)))
    names = {"a load": BLUE, "sine or cosine": ORANGE, "a store": GREEN}
    heights = {"a load": -0.24, "sine or cosine": 0.0, "a store": 0.24}
    for row, code in enumerate(kernels.values()):
        lines = kernel_lines(code).items()
        of_sines = {number for number, line in lines if "tl.cos(" in line or "tl.sin(" in line}
        places = {name: [] for name in names}
        for place, operation in enumerate(executed(code)):
            if operation.opcode.startswith("LDG"):
                places["a load"].append(place)
            elif operation.opcode.startswith("STG"):
                places["a store"].append(place)
            elif operation.line in of_sines:
                places["sine or cosine"].append(place)
        for name, color in names.items():
            width = 1.0 if name == "sine or cosine" else 3.0
            middle = row + heights[name]
            ax.vlines(places[name], middle - 0.1, middle + 0.1, color=color, linewidth=width)
        for close in _close_together(places["a load"]):
            draw.write(ax, sum(close) / len(close), row - 0.44, str(len(close)))
    ax.set_yticks(range(len(kernels)), list(kernels))
    ax.set(xlabel="instructions of a warp, from the first to the last", xlim=(-8, None))
    ax.set_ylim(len(kernels) - 0.5, -0.6)
    ax.tick_params(axis="y", length=0)
    key = {"above: loads": BLUE, "between: sine or cosine": ORANGE, "below: stores": GREEN}
    draw.color_key(figure, key)
    draw.finish(figure, title)


def _close_together(places: list[int], most: int = 16) -> list[list[int]]:
    """The places in groups, in each of which two neighbors are at most so far apart."""
    groups: list[list[int]] = []
    for place in places:
        if groups and place - groups[-1][-1] <= most:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups
