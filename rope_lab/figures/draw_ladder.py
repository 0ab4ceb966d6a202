"""The climb of notebooks 04 to 09 as one picture: what each rung took away."""

import matplotlib.pyplot as plt

from . import style as draw
from .style import BLUE, GREEN, INK, ORANGE

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


def climb(record, title: str = "") -> None:
    """A bar for each rung: the time that is left, and what the rung took away.

    Eager's bar is far longer than the others, and is cut off. Beside the bars there is a table: the
    time, what changed, and the per cent of copy bandwidth.

    `record` has a case "copy" and some of `NAMES`. The default title is how far the last rung came.
    """
    times = {case: record[case].median_us for case in NAMES if case in record.cases}
    copy = record["copy"].median_us
    figure, ax = plt.subplots(figsize=(draw.WIDTH, 2.2 + 0.36 * len(times)))
    end = 1.08 * max(us for case, us in times.items() if case != "eager")
    before, row = None, "{:>6}{:>9}{:>9}".format
    table = [row("\u00b5s", "change", "of copy")]
    for place, (case, us) in enumerate(times.items(), 1):
        color = GREEN if case == "package" else BLUE
        ax.barh(place, min(us, end), color=color, height=0.62)
        if us > end:
            ax.text(end, place, "cut off ", ha="right", va="center", color=draw.ON_COLOR)
        change = ""
        if before and case != "package":
            taken = max(0, min(before, end) - us)
            ax.barh(place, taken, left=us, color=ORANGE, height=0.62)
            change = _rounded(us - before, "+")
        table.append(row(_rounded(us), change, f"{100 * copy / us:.1f} %"))
        before = us
    ax.axvline(copy, color=INK, linestyle=":", linewidth=1.4)
    ax.text(copy, 0, " copy", va="center")
    ax.set_yticks(range(1, 1 + len(times)), [NAMES[case] for case in times], ha="left")
    ax.tick_params(axis="y", pad=158, length=0)
    ax.set(xlabel="device time in microseconds", xlim=(0, end), ylim=(len(times) + 0.5, -0.4))
    right = ax.secondary_yaxis("right")
    right.set_yticks(range(len(table)), table, family="monospace")
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    names = {"time left": BLUE, "taken away by this rung": ORANGE, "the package": GREEN}
    draw.color_key(figure, names)
    each = ", ".join(f"{NAMES[case]} {us:.0f} \u00b5s" for case, us in times.items())
    words = f"Bars from rung to rung; the copy takes {copy:.0f} \u00b5s. {each}."
    draw.finish(figure, title or _conclusion(times, copy), words, record.source)


def _conclusion(times: dict[str, float], copy: float) -> str:
    rungs = [us for case, us in times.items() if case.startswith("rung")]
    text = f"The last of {len(rungs)} rungs has {100 * copy / rungs[-1]:.1f} % of a copy's speed"
    return f"{text}, {times['eager'] / rungs[-1]:.0f} times eager's" if "eager" in times else text


def _rounded(us: float, sign: str = "") -> str:
    digits = 0 if abs(us) >= 100 else 1
    return f"{us:{sign}.{digits}f}" if round(us, digits) else "0"
