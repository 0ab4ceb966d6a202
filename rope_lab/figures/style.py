"""One look for every figure: dark text on a white ground, on white pages and on dark ones.

The ground is part of the picture, because no grey of text has a contrast of 4.5 on both white and
JupyterLab's dark ground. A picture has two pixels for each pixel of the page and stays sharp on a
dense screen. The hues are Okabe and Ito's (2008), which color-blind readers can tell apart. Each
has a contrast of 3 or more on the ground, and dark text is read on it. Printed in grey they are
nearly one shade, so what a figure compares also differs by its place, its mark, its words, or
`HATCHED`.

`on_white.mplstyle` has matplotlib's settings. Here are the colors by name, what every figure
ends with (`finish`), and the shapes that drawings consist of.
"""

from collections.abc import Callable, Sequence
from unittest.mock import patch

import matplotlib.pyplot as plt
from IPython import get_ipython
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib_inline.backend_inline import set_matplotlib_formats

INK = "#262626"  # text and axes
GREY = "#858585"  # marks that compete with nothing: a copy, a resting arrow
BLUE, ORANGE, GREEN, RED, PURPLE = "#3d8fd1", "#cc7a00", "#0a9a70", "#c8321e", "#bd6c9f"
OLIVE, VIOLET, SALMON, TEAL = "#8b8f00", "#8a7fe0", "#d9694f", "#2196a8"
ON_COLOR = "#111111"  # text and marks on a filled patch of any color but RED
LIGHT = "#fafafa"  # lines on filled patches, and between them
# of program, warp, ... 0 to 7; not all of the last four differ for color-blind readers
PROGRAM_COLORS = (BLUE, ORANGE, GREEN, PURPLE, OLIVE, VIOLET, SALMON, TEAL)
DIVERGING = "PuOr"
HATCHED = {"hatch": "///", "edgecolor": LIGHT, "linewidth": 0}  # the second part of a bar

SMALL = 9  # points; the smallest text
WIDTH = 8.4  # inches of 100 pixels; a laptop shows a figure of this width as it is
LEFT = 0.012  # where a figure's title and its source begin
MOST_WORDS = 60  # drawn in axes, that a description lists


def style() -> None:
    """Set matplotlib's defaults for the notebooks, and how they show figures."""
    plt.style.use("rope_lab.figures.on_white")
    if get_ipython():
        set_matplotlib_formats("retina", bbox_inches=None)  # the whole figure


# what a figure says about itself


def finish(figure: Figure, conclusion: str, source: str = "", alt: str = "") -> None:
    """Set a figure's title, which states its conclusion, and its source, and show it.

    `alt`: a description, if titles, axes and words aren't enough.
    """
    if conclusion:
        figure.suptitle(conclusion, x=LEFT, ha="left", wrap=True)
    if source:
        _cite(figure, source)
    display(figure, metadata={"image/png": {"alt": alt or description(figure)}})
    plt.close(figure)


def drawn(drawing: Callable, **values) -> tuple[Figure, str]:
    """Return the figure that `drawing(**values)` would show, and its description."""
    with patch(f"{__name__}.display") as shown:
        drawing(**values)
    (figure,), options = shown.call_args
    return figure, options["metadata"]["image/png"]["alt"]


def description(figure: Figure) -> str:
    """Describe a figure's titles, axes, numbers and words, for readers who can't see it."""
    said = [figure.get_suptitle()]
    for ax in figure.axes:
        over = " over ".join(filter(None, (ax.get_ylabel(), ax.get_xlabel())))
        drawn = [text.get_text() for text in ax.texts]
        names = _names(ax.yaxis)
        if len(names) == len(drawn):  # bars
            drawn = [f"{name} {number}" for name, number in zip(names, drawn, strict=True)]
        else:
            beside = [name for child in ax.child_axes for name in _names(child.yaxis)]
            drawn = [*names, *_names(ax.xaxis), *beside, *drawn]
        few = drawn if len(drawn) <= MOST_WORDS else []  # not each box of a grid
        said += [ax.get_title("left"), over, ", ".join(filter(None, few))]
    said += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return ". ".join(" ".join(text.split()).rstrip(".") for text in said if text) + "."


def _names(axis: Axis) -> list[str]:
    """The labels of ticks that are words, not numbers."""
    labels = [label.get_text() for label in axis.get_ticklabels()]
    return [x for x in labels if any(map(str.isalpha, x)) and "$" not in x]


def _cite(figure: Figure, source: str) -> None:
    """Under the figure, in small print: where its numbers come from.

    The layout keeps room for it and for the figure's legends, but puts both into one place: the
    legends go above it.
    """
    note = figure.supxlabel(source, x=LEFT, ha="left", fontsize=SMALL, wrap=True)
    points = 72 * note.get_window_extent().height / figure.dpi + 10
    for legend in figure.legends:
        legend.borderaxespad = points / legend.get_texts()[0].get_fontsize()


def color_key(figure: Figure, names: dict[str, str], hatched: Sequence[str] = ()) -> None:
    """Draw a legend below the figure: name -> color. The names in `hatched` are hatched."""
    patches = []
    for name, color in names.items():
        look = HATCHED if name in hatched else {"edgecolor": INK}
        patches.append(Rectangle((0, 0), 1, 1, facecolor=color, **look))
    figure.legend(patches, names, loc="outside lower center", ncols=len(names))


# the shapes that drawings consist of


def write(ax: Axes, x: float, y: float, words: str, **look) -> None:
    """Write small text centered at a point."""
    ax.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": SMALL} | look)


def box(ax: Axes, x, y, wide, high, color: str, words: str = "", exists=True, **text) -> None:
    """Draw a box centered at a point, with words in it; hollow if it doesn't exist."""
    look = {"linewidth": 0} if exists else {"fill": False, "linestyle": "--"}
    ax.add_patch(Rectangle((x - wide / 2, y - high / 2), wide, high, color=color, **look))
    write(ax, x, y, words, color=ON_COLOR if exists else INK, **text)


def arrow(ax: Axes, start: tuple, end: tuple, color: str = INK, **look) -> None:
    """Draw an arrow between two points."""
    shape = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.4}
    shape |= {"shrinkA": 0, "shrinkB": 0}  # from point to point
    ax.add_patch(FancyArrowPatch(start, end, color=color, **shape | look))


def bare(ax: Axes, xlim: tuple, ylim: tuple, **more) -> None:
    """Set the limits of axes, and remove their lines, ticks and numbers."""
    ax.set(xlim=xlim, ylim=ylim, **more)
    ax.axis("off")


def log_ticks(ax: Axes, which: str, ticks: Sequence[float]) -> None:
    """Make the axis "x" or "y" logarithmic, with plain numbers at those of the ticks in sight."""
    axis = {"x": ax.xaxis, "y": ax.yaxis}[which]
    ax.set(**{f"{which}scale": "log"})
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def memory_order(ax: Axes, labels: list[str], colors: list[str], title: str) -> None:
    """Draw blocks in memory order."""
    for place, (label, color) in enumerate(zip(labels, colors, strict=True)):
        box(ax, place + 0.5, 0.5, 0.92, 1, color, label)
    bare(ax, (0, len(labels)), (-0.1, 1.1), title=title)


def numbered_bars(ax: Axes, names, values, colors, number: str, room: float = 1.1) -> None:
    """Draw horizontal bars with numbers. The axis is `room` times as long as the longest bar."""
    bars = ax.barh(names, values, color=colors, height=0.66)
    ax.bar_label(bars, fmt=number, padding=5)
    ax.invert_yaxis()
    ax.set_xlim(0, room * max(values))


def time_bars(measurement, title: str) -> None:
    """Horizontal bars of a `lab.bench` measurement: copies grey, PyTorch's blue, ours green."""
    times = {name: timing.median_us for name, timing in measurement.cases.items()}
    figure, ax = plt.subplots(figsize=(8.0, 1.5 + 0.4 * len(times)))
    colors = [GREY if "copy" in n else BLUE if "PyTorch" in n else GREEN for n in times]
    numbered_bars(ax, list(times), list(times.values()), colors, "{:.0f}")
    ax.set(xlabel="device time in microseconds (shorter is better)")
    finish(figure, title, measurement.source)
