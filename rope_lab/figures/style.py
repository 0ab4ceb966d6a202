"""One look for every figure: dark ink on a light plate, which reads on light and dark pages.

No single color of text has enough contrast on a white page and on a dark one. So every figure
brings its own ground. A picture has two pixels for each pixel of the page and stays sharp on a
dense screen. The hues are Okabe and Ito's (2008), which color-blind readers can tell apart. Their
lightness is chosen so that each color is seen on the plate and dark text is read on it.
"""

import io
import os
import textwrap

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.textpath import TextPath
from matplotlib_inline.backend_inline import set_matplotlib_formats

from . import audit
from .labels import place_labels

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

# bars that are PyTorch's; the others, but for copies, are kernels of this series
_PYTORCH = {"PyTorch", "PyTorch, compiled", "eager"}
_PYTORCH |= {"t * cos", "neg of a half", "cat of halves", "sum", "cat with nothing"}  # notebook 02


def style() -> None:
    """Set matplotlib's defaults for the notebooks."""
    mpl.rcParams.update(
        {
            "figure.figsize": (8.0, 3.2),
            "figure.dpi": 100,
            "figure.facecolor": PLATE,
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.h_pad": 0.08,
            "figure.constrained_layout.w_pad": 0.08,
            "savefig.facecolor": PLATE,
            "axes.facecolor": "none",
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "axes.titlelocation": "left",
            "axes.titlesize": 11.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE]),
            "font.size": 11,
            "grid.color": INK,
            "grid.alpha": 0.2,
            "image.cmap": SEQUENTIAL,
            "legend.frameon": False,
            "legend.labelcolor": INK,
            "lines.linewidth": 2.0,
            "text.color": INK,
            "xtick.color": INK,
            "xtick.labelsize": 10,
            "ytick.color": INK,
            "ytick.labelsize": 10,
        }
    )
    _show_sharp_and_described()
    if os.environ.get(audit.AUDIT_SWITCH) == "1":
        audit.audit_what_is_shown()


def _show_sharp_and_described() -> None:
    """Have notebooks draw two pixels for one, and store each figure's description beside it."""
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


def conclude(figure: Figure, conclusion: str) -> None:
    """The figure's title, on the left above everything: what one should see in it."""
    inches = figure.get_size_inches()[0]
    words = _wrapped(conclusion, 12.5, inches)
    figure.suptitle(words, x=0.012, ha="left", fontsize=12.5)


def describe(figure: Figure, words: str) -> None:
    """Say what the figure shows, for readers who do not see it."""
    figure.described_as = words


def description(figure: Figure) -> str:
    """What `describe` said after the figure's titles; without it, what the axes are."""
    titles = [figure.get_suptitle()]
    for ax in figure.axes:
        titles += [ax.get_title(loc) for loc in ("left", "center", "right")]
    words = getattr(figure, "described_as", None) or _about_axes(figure)
    said = [" ".join(text.split()) for text in (*titles, words)]
    return " ".join(text if text[-1] in ".!?" else f"{text}." for text in said if text)


def _about_axes(figure: Figure) -> str:
    pairs = {(ax.get_ylabel(), ax.get_xlabel()) for ax in figure.axes}
    said = [f"{y or 'bars'} over {x}" for y, x in sorted(pairs) if x]
    return ("A chart: " + "; ".join(said)) if said else ""


def finish(figure: Figure, conclusion: str, words: str, source: str = "") -> None:
    """Give a figure its title, its description and its source, place its labels, and show it."""
    if conclusion:
        conclude(figure, conclusion)
    describe(figure, words)
    if source:
        cite(figure, source)
    place_labels(figure)
    plt.show()


def inked(color: str) -> str:
    """A color dark enough for text on the plate."""
    return to_hex([0.74 * part for part in to_rgb(color)])


def _wrapped(text: str, size: float, inches: float) -> str:
    """The text in as many lines as it needs in a figure of this width."""
    room = 72 * (inches - 0.25)
    wide = TextPath((0, 0), text, size=size).get_extents().width
    if wide <= room:
        return text
    return textwrap.fill(text, int(0.97 * len(text) * room / wide))


def plane(ax: Axes, limit: float = 1.25, title: str = "") -> None:
    """A square piece of the plane with axes through the origin and the unit circle."""
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", title=title)
    ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], xlabel="first element", ylabel="second element")
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.add_patch(plt.Circle((0, 0), 1.0, fill=False, color=GREY, linewidth=1, linestyle=":"))
    describe(ax.figure, "A plane with the unit circle and arrows from the origin.")


def arrow(ax: Axes, vector, color: str, label: str = "", dashed: bool = False) -> None:
    """A vector from the origin, with a label beyond its tip."""
    x, y = (float(value) for value in vector)
    line = (0, (3, 2)) if dashed else "solid"
    tip = FancyArrowPatch(
        (0, 0), (x, y), arrowstyle="-|>", mutation_scale=14, color=color, linewidth=2, shrinkA=0,
        shrinkB=0, linestyle=line,
    )  # fmt: skip
    ax.add_patch(tip)
    length = max(np.hypot(x, y), 1e-9)
    ax.text(
        x + 0.16 * x / length, y + 0.16 * y / length, label, color=inked(color), ha="center",
        va="center",
    )  # fmt: skip


def angle_between(ax: Axes, start: float, stop: float, radius: float, label: str) -> None:
    """An arc from one direction to another (radians), with a label at its middle."""
    turn = np.linspace(start, stop, 60)
    ax.plot(radius * np.cos(turn), radius * np.sin(turn), color=INK, linewidth=1.2)
    middle = (start + stop) / 2
    ax.text(
        (radius + 0.15) * np.cos(middle), (radius + 0.15) * np.sin(middle), label, ha="center",
        va="center",
    )  # fmt: skip


def pairing(ax: Axes, pairs: list[tuple[int, int]], title: str) -> None:
    """Elements in a row, and an arc for each pair that is rotated together."""
    colors = [BLUE, ORANGE, GREEN, PURPLE, RED]
    for number, (first, second) in enumerate(pairs):
        color = colors[number % len(colors)]
        turn = np.linspace(0, np.pi, 50)
        middle, radius = (first + second) / 2, (second - first) / 2
        ax.plot(middle + radius * np.cos(turn), 0.5 + 0.55 * radius * np.sin(turn), color=color)
        for element in (first, second):
            ax.add_patch(Rectangle((element - 0.42, -0.42), 0.84, 0.84, color=color))
            ax.text(element, 0, str(element), color=ON_COLOR, ha="center", va="center")
    count = 2 * len(pairs)
    high = 0.8 + 0.28 * count  # the widest arc that there can be
    ax.set(xlim=(-0.7, count - 0.3), ylim=(-0.6, high), title=title, aspect="equal")
    ax.axis("off")
    words = "Rows of boxes, one for each element, with an arc between the two members of each pair."
    describe(ax.figure, words)


def memory_order(ax: Axes, labels: list[str], colors: list[str], title: str) -> None:
    """Blocks in the order that they have in memory."""
    for place, (label, color) in enumerate(zip(labels, colors, strict=True)):
        ax.add_patch(Rectangle((place + 0.04, 0), 0.92, 1, color=color, linewidth=0))
        ax.text(place + 0.5, 0.5, label, color=ON_COLOR, ha="center", va="center", fontsize=SMALL)
    ax.set(xlim=(0, len(labels)), ylim=(-0.1, 1.1))
    ax.set_title(title, loc="left")
    ax.axis("off")
    describe(ax.figure, "Rows of boxes, one for each block, in the order that they have in memory.")


def color_key(figure: Figure, names: dict[str, str]) -> None:
    """What the colours mean, in a row under the figure: name -> colour."""
    patches = [Rectangle((0, 0), 1, 1, color=color) for color in names.values()]
    figure.legend(patches, names, loc="outside lower center", ncols=len(names))


def cite(figure: Figure, source: str) -> None:
    """Under the figure, in small print: where its numbers come from.

    A strip at the bottom is kept free for it, and above it one for the figure's legends: the layout
    by itself would put both into one place.
    """
    inches, high = figure.get_size_inches()
    words = _wrapped(source, SMALL, inches)
    figure.text(0.012, 5 / 72 / high, words, fontsize=SMALL, va="bottom", in_layout=False)
    strip = (1.35 * SMALL * (1 + words.count("\n")) + 6) / 72 / high
    renderer = figure.canvas.get_renderer()
    legends = [legend.get_window_extent(renderer).height for legend in figure.legends]
    bottom = strip + (max(legends) + 6) / figure.bbox.height if legends else strip
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, strip, 1, 1 - strip), figure.transFigure)
    if engine := figure.get_layout_engine():
        engine.set(rect=(0, bottom, 1, 1 - bottom))


def bars_on(
    ax: Axes, times: dict[str, float], colors: list[str], digits=lambda time: 0, room: float = 1.12
) -> None:
    """Horizontal bars of times in microseconds, from top to bottom, each with its number.

    `digits` tells how many digits a time shows behind the point; the axis ends at `room` times the
    longest bar.
    """
    longest = max(times.values())
    ax.barh(list(times), list(times.values()), color=colors, height=0.66)
    for place, time in enumerate(times.values()):
        ax.text(time + 0.01 * longest, place, f"{time:.{digits(time)}f}", va="center")
    ax.invert_yaxis()
    ax.set_xlim(0, room * longest)


def time_bars(measurement, title: str) -> None:
    """Horizontal bars of a `lab.bench` measurement, with its source under them.

    A copy is grey, PyTorch's are blue, ours are green.
    """
    times = {name: timing.median_us for name, timing in measurement.cases.items()}
    figure, ax = plt.subplots(figsize=(8.0, 1.5 + 0.4 * len(times)))
    bars_on(ax, times, [_bar_color(name) for name in times], room=1.1)
    ax.set(xlabel="device time in microseconds (shorter is better)")
    finish(figure, title, f"Bars of device time: {spoken(times)}.", measurement.source)


def spoken(times: dict[str, float], unit: str = "\u00b5s", digits: int = 0) -> str:
    """Names and times as a sentence has them, for a description."""
    return "; ".join(f"{name} {time:.{digits}f} {unit}" for name, time in times.items())


def _bar_color(name: str) -> str:
    if "copy" in name:
        return GREY
    return BLUE if name in _PYTORCH else GREEN
