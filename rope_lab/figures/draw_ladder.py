"""The climb of notebooks 04 to 09 as one picture: what each rung took away."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from .style import BLUE, GREEN, INK, ON_COLOR, ORANGE, WIDTH, color_key, finish

NAMES = {
    "eager": "eager PyTorch",
    "rung 1": "1  naive",
    "rung 2": "2  a program owns its pairs",
    "rung 3": "3  a tile of rows",
    "rung 4": "4  backward by a flag",
    "rung 5": "5  one warp",
    "rung 6": "6  sine before the broadcast",
    "rung 7": "7  loads first",
    "rung 8": "8  chosen rows",
    "package": "the package",
}


def climb(record, title: str = "") -> None:
    """A bar for each rung: the time that is left, and what the rung took away.

    Eager's bar is far longer than the others, and is cut off. Beside the bars there is a table: the
    time, what changed, and the per cent of copy bandwidth.

    Args:
        record: the measurement "09/rungs", with a case "copy" and some of `NAMES`.
        title: what it shows; by default how far the last rung has come.
    """
    times = {case: record[case].median_us for case in NAMES if case in record.cases}
    copy, rungs = record["copy"].median_us, [case for case in times if case.startswith("rung")]
    title = title or _conclusion(times, copy, rungs)
    figure, ax = plt.subplots(figsize=(WIDTH, 2.2 + 0.36 * len(times)))
    end = 1.08 * max(us for case, us in times.items() if case != "eager")
    before = None
    for place, (case, us) in enumerate(times.items()):
        change = None if before is None or case == "package" else us - before
        _bar(ax, place, us, change, end, GREEN if case == "package" else BLUE)
        texts = f"{us:.{_digits(us)}f}", _signed(change), f"{100 * copy / us:.1f} %"
        _beside(ax, place, *texts)
        before = us
    _beside(ax, -0.9, "\u00b5s", "change", "of copy")
    ax.axvline(copy, color=INK, linestyle=":", linewidth=1.4)
    ax.annotate("copy", (copy, -0.9), xytext=(5, 0), textcoords="offset points", va="center")
    ax.set_yticks(range(len(times)), [NAMES[case] for case in times])
    for label in ax.get_yticklabels():
        label.set_horizontalalignment("left")
    ax.tick_params(axis="y", pad=158, length=0)
    ax.set(xlabel="device time in microseconds", xlim=(0, end), ylim=(len(times) - 0.5, -1.3))
    color_key(figure, {"time left": BLUE, "taken away by this rung": ORANGE, "the package": GREEN})
    each = ", ".join(f"{NAMES[case]} {us:.0f} \u00b5s" for case, us in times.items())
    words = f"Bars from rung to rung; the copy takes {copy:.0f} \u00b5s. {each}."
    finish(figure, title, words, record.source)


def _conclusion(times: dict[str, float], copy: float, rungs: list[str]) -> str:
    last = times[rungs[-1]]
    text = f"The last of {len(rungs)} rungs has {100 * copy / last:.1f} % of a copy's speed"
    return f"{text}, {times['eager'] / last:.0f} times eager's" if "eager" in times else text


def _bar(ax: Axes, place: int, us: float, change: float | None, end: float, color: str) -> None:
    """The time that is left, and to the right of it what this rung took away."""
    ax.barh(place, min(us, end), color=color, height=0.62)
    if change and change < 0:
        ax.barh(place, min(us - change, end) - us, left=us, color=ORANGE, height=0.62)
    if us > end:
        ax.text(end, place, "cut off ", ha="right", va="center", color=ON_COLOR)


def _digits(us: float) -> int:
    return 0 if us >= 100 else 1


def _signed(change: float | None) -> str:
    if change is None:
        return ""
    digits = _digits(abs(change))
    return f"{change:+.{digits}f}" if round(change, digits) else "0"


def _beside(ax: Axes, place: float, *texts: str) -> None:
    """A line of the table to the right of the bars, in columns of a fixed width."""
    for points, text in zip((46, 100, 154), texts, strict=True):
        ax.annotate(
            text, (1, place), xycoords=ax.get_yaxis_transform(), xytext=(points, 0),
            textcoords="offset points", ha="right", va="center",
        )  # fmt: skip
