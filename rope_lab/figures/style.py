"""One look for every figure: dark ink on a light plate, which reads on light and dark pages.

No single color of text has enough contrast on a white page and on a dark one. So every figure
brings its own ground. A picture has two pixels for each pixel of the page and stays sharp on a
dense screen. The hues are Okabe and Ito's (2008), which color-blind readers can tell apart. Their
lightness is chosen so that each color is seen on the plate and dark text is read on it.

`plate.mplstyle` has matplotlib's settings. Here are the colors by name, what every figure ends
with (`finish`), and the shapes that drawings consist of.
"""

import io
import os
from collections.abc import Sequence

import matplotlib.pyplot as plt
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib_inline.backend_inline import set_matplotlib_formats

from . import audit

PLATE = "#fafafa"  # what figures are drawn on
INK = "#333333"  # text and axes
GREY = "#858585"  # marks that compete with nothing: a copy, a resting arrow
PALE = "#dcdcdc"  # a filled patch that is there and does not matter
BLUE, ORANGE, GREEN, RED, PURPLE = "#3d8fd1", "#cc7a00", "#0a9a70", "#c8321e", "#bd6c9f"
ON_COLOR = "#111111"  # text on a filled patch of any color but RED
PROGRAM_COLORS = (BLUE, ORANGE, GREEN, PURPLE)  # of program, warp, ... 0, 1, 2, 3
SEQUENTIAL, DIVERGING = "cividis", "PuOr"

SMALL, WIDTH = audit.SMALL, audit.WIDTH
DENSITY = 2  # pixels of a picture for each pixel of the page
LEFT = 0.012  # where a figure's title and its source begin

# bars that are PyTorch's; the others, but for copies, are kernels of this series
_PYTORCH = {"PyTorch", "PyTorch, compiled", "eager"}
_PYTORCH |= {"t * cos", "neg of a half", "cat of halves", "sum", "cat with nothing"}  # notebook 02


def style() -> None:
    """Set matplotlib's defaults for the notebooks, and how they show and describe figures."""
    plt.style.use("rope_lab.figures.plate")
    audit.audit_what_is_shown()
    shell = get_ipython()
    if shell is None:
        return
    set_matplotlib_formats("retina", bbox_inches=None)  # the whole plate
    formatter = shell.display_formatter.formatters["image/png"]
    draw = formatter.for_type(Figure)

    def draw_and_describe(figure: Figure):
        drawn = draw(figure)
        if drawn is None:
            return None
        data, metadata = drawn
        return data, metadata | {"alt": description(figure)}

    formatter.for_type(Figure, draw_and_describe)


def png(figure: Figure) -> bytes:
    """The figure, on an Agg canvas, as PNG: the same bytes for the same picture.

    As `savefig` does it, but drawn once and not twice: who moves a slider waits for it.
    """
    if os.environ.get(audit.AUDIT_SWITCH) == "1":
        audit.audit(figure)
    buffer = io.BytesIO()
    figure.set_dpi(DENSITY * plt.rcParams["figure.dpi"])
    figure.canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


# what a figure says about itself


def finish(figure: Figure, conclusion: str, words: str, source: str = "") -> None:
    """Give a figure its title, its description and its source, and show it."""
    if conclusion:
        conclude(figure, conclusion)
    describe(figure, words)
    if source:
        cite(figure, source)
    plt.show()


def conclude(figure: Figure, conclusion: str) -> None:
    """The figure's title, on the left above everything: what one should see in it."""
    figure.suptitle(conclusion, x=LEFT, ha="left", wrap=True)


def describe(figure: Figure, words: str) -> None:
    """Say what the figure shows, for readers who do not see it."""
    figure.described_as = words


def description(figure: Figure) -> str:
    """The figure's titles, and after them what `describe` said."""
    titles = [ax.get_title(place) for ax in figure.axes for place in ("left", "center", "right")]
    words = getattr(figure, "described_as", "")
    said = [" ".join(text.split()) for text in (figure.get_suptitle(), *titles, words)]
    return " ".join(text if text[-1] in ".!?" else f"{text}." for text in said if text)


def cite(figure: Figure, source: str) -> None:
    """Under the figure, in small print: where its numbers come from.

    A strip at the bottom is kept free for it, and above it one for the figure's legends: the layout
    by itself would put both into one place.
    """
    points, pixels = 72 * figure.get_size_inches()[1], figure.bbox.height
    renderer = figure.canvas.get_renderer()
    look = {"fontsize": SMALL, "va": "bottom", "wrap": True, "in_layout": False}
    note = figure.text(LEFT, 5 / points, source, **look)
    strip = note.get_window_extent(renderer).height / pixels + 8 / points
    bottom = strip
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, strip, 1, 1 - strip), figure.transFigure)
        bottom = max(bottom, strip + (legend.get_window_extent(renderer).height + 6) / pixels)
    if engine := figure.get_layout_engine():
        engine.set(rect=(0, bottom, 1, 1 - bottom))


def color_key(figure: Figure, names: dict[str, str]) -> None:
    """What the colors mean, in a row under the figure: name -> color."""
    patches = [Rectangle((0, 0), 1, 1, color=color) for color in names.values()]
    figure.legend(patches, names, loc="outside lower center", ncols=len(names))


def inked(color: str) -> str:
    """A color dark enough for text on the plate."""
    return to_hex([0.74 * part for part in to_rgb(color)])


# the shapes that drawings consist of


def write(ax: Axes, x: float, y: float, words: str, **look) -> None:
    """Small text with its middle at a point."""
    ax.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": SMALL} | look)


def box(ax: Axes, x, y, wide, high, color: str, words: str = "", **text) -> None:
    """A filled box with its middle at a point, and words in it."""
    ax.add_patch(Rectangle((x - wide / 2, y - high / 2), wide, high, color=color, linewidth=0))
    write(ax, x, y, words, color=ON_COLOR, **text)


def frame(ax: Axes, x, y, wide, high, color: str = INK, **look) -> None:
    """The outline of a box with its middle at a point."""
    corner = x - wide / 2, y - high / 2
    ax.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor=color, **look))


def arrow(ax: Axes, start: tuple, end: tuple, color: str = INK, **look) -> None:
    """An arrow that begins and ends at two points."""
    shape = {
        "arrowstyle": "-|>",
        "mutation_scale": 11,
        "linewidth": 1.4,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    ax.add_patch(FancyArrowPatch(start, end, color=color, **shape | look))


def bare(ax: Axes, xlim: tuple, ylim: tuple, **more) -> None:
    """Axes that have limits and no lines, ticks or numbers."""
    ax.set(xlim=xlim, ylim=ylim, **more)
    ax.axis("off")


def plane(ax: Axes, limit: float = 1.25, title: str = "") -> None:
    """A square piece of the plane with axes through the origin and the unit circle."""
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", title=title)
    ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], xlabel="first element", ylabel="second element")
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.add_patch(plt.Circle((0, 0), 1.0, fill=False, color=GREY, linewidth=1, linestyle=":"))


def vector(ax: Axes, tip, color: str, label: str = "", dashed: bool = False) -> None:
    """A vector from the origin, with a label beyond its tip."""
    x, y = (float(value) for value in tip)
    line = (0, (3, 2)) if dashed else "solid"
    arrow(ax, (0, 0), (x, y), color, mutation_scale=14, linewidth=2, linestyle=line)
    beyond = 1 + 0.16 / max((x**2 + y**2) ** 0.5, 1e-9)
    write(ax, beyond * x, beyond * y, label, color=inked(color), fontsize=11)


def memory_order(ax: Axes, labels: list[str], colors: list[str], title: str) -> None:
    """Blocks in the order that they have in memory."""
    for place, (label, color) in enumerate(zip(labels, colors, strict=True)):
        box(ax, place + 0.5, 0.5, 0.92, 1, color, label)
    bare(ax, (0, len(labels)), (-0.1, 1.1), title=title)
    describe(ax.figure, "Rows of boxes, one for each block, in the order that they have in memory.")


def numbered_bars(ax: Axes, names, values, colors, labels, room: float = 1.1, **text) -> None:
    """Horizontal bars from top to bottom, with labels; the axis is `room` times the longest."""
    drawn = ax.barh(names, values, color=colors, height=0.66)
    ax.bar_label(drawn, labels, padding=5, **text)
    ax.invert_yaxis()
    ax.set_xlim(0, room * max(values))


def time_bars(
    measurement, title: str, colors: Sequence[str] = (), each: float = 0.4, digits: int = 0
) -> None:
    """Horizontal bars of a `lab.bench` measurement, each `each` inches high, and its source.

    Without other colors, a copy is grey, PyTorch's are blue, ours are green. Times up to 100 show
    `digits` after the point.
    """
    times = {name: timing.median_us for name, timing in measurement.cases.items()}
    figure, ax = plt.subplots(figsize=(8.0, 1.5 + each * len(times)))
    labels = [f"{us:.{digits if us <= 100 else 0}f}" for us in times.values()]
    colors = colors or [_bar_color(name) for name in times]
    numbered_bars(ax, list(times), list(times.values()), colors, labels)
    ax.set(xlabel=f"{measurement.clock} time in microseconds (shorter is better)")
    words = f"Bars of {measurement.clock} time: {spoken(times, digits=digits)}."
    finish(figure, title, words, measurement.source)


def spoken(times: dict[str, float], unit: str = "\u00b5s", digits: int = 0) -> str:
    """Names and times as a sentence has them, for a description."""
    return "; ".join(f"{name} {time:.{digits}f} {unit}" for name, time in times.items())


def _bar_color(name: str) -> str:
    if "copy" in name:
        return GREY
    return BLUE if name in _PYTORCH else GREEN
