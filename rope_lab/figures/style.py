"""One look for every figure: a colour-blind-safe palette that reads on light and dark pages.

Figures are transparent with mid-grey text, so they sit on whatever page shows them, and have two
pixels for each pixel of the page, so that they stay sharp on a dense screen. The colours are
Okabe and Ito's (2008), but for a lighter blue that reads on a dark page too.
"""

import io

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib_inline.backend_inline import set_matplotlib_formats

from .alt import store_with_pictures

BLUE, ORANGE, GREEN, RED, PURPLE = "#3d8fd1", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
INK = "#797979"  # contrast 4.3 on white and on JupyterLab's dark page; no grey has more on both
DENSITY = 2  # pixels of a picture for each pixel of the page
ON_COLOR = "#111111"  # text on a filled patch, whose colour does not change with the page
PROGRAM_COLORS = (BLUE, ORANGE, GREEN, PURPLE)  # of program, warp, ... 0, 1, 2, 3
SEQUENTIAL, DIVERGING = "cividis", "PuOr"

# bars that are PyTorch's; the others, but for copies, are kernels of this series
_PYTORCH = {"PyTorch", "PyTorch, compiled", "eager"}
_PYTORCH |= {"t * cos", "neg of a half", "cat of halves", "sum", "cat with nothing"}  # notebook 02


def style() -> None:
    """Set matplotlib's defaults for the notebooks. Sizes are fixed: nbval compares them."""
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 3.2),
            "figure.dpi": 100,
            "figure.facecolor": "white",
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "none",
            "axes.facecolor": "none",
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "axes.titlesize": 12,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE]),
            "font.size": 11,
            "grid.color": INK,
            "grid.alpha": 0.25,
            "image.cmap": SEQUENTIAL,
            "legend.frameon": False,
            "legend.labelcolor": INK,
            "lines.linewidth": 2.0,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )
    _show_without_background()


def _show_without_background() -> None:
    """Have notebooks draw figures as they are: transparent.

    A figure whose own colour is transparent gets a white or black ground from JupyterLab, by the
    brightness of its tick labels. So figures are white by themselves, and lose it when drawn.
    """
    if get_ipython() is not None:
        set_matplotlib_formats("retina", facecolor="none")
        store_with_pictures()


def png(figure: Figure) -> bytes:
    """The figure, on an Agg canvas, as PNG: the same bytes for the same picture.

    As `savefig` does it, but drawn once and not twice: who moves a slider waits for it.
    """
    buffer = io.BytesIO()
    figure.set_facecolor(plt.rcParams["savefig.facecolor"])
    figure.set_dpi(DENSITY * plt.rcParams["figure.dpi"])
    figure.canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def plane(ax: Axes, limit: float = 1.25, title: str = "") -> None:
    """A square piece of the plane with axes through the origin and the unit circle."""
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", title=title)
    ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], xlabel="first element", ylabel="second element")
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.axvline(0, color=INK, linewidth=0.6)
    ax.add_patch(plt.Circle((0, 0), 1.0, fill=False, color=INK, linewidth=0.6, linestyle=":"))


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
        x + 0.16 * x / length, y + 0.16 * y / length, label, color=color, ha="center", va="center"
    )


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
    ax.set(xlim=(-0.7, count - 0.3), ylim=(-0.6, 2.9), title=title, aspect="equal")
    ax.axis("off")


def memory_order(ax: Axes, labels: list[str], colors: list[str], title: str) -> None:
    """Blocks in the order in which they lie in memory."""
    for place, (label, color) in enumerate(zip(labels, colors, strict=True)):
        ax.add_patch(Rectangle((place + 0.04, 0), 0.92, 1, color=color, linewidth=0))
        ax.text(place + 0.5, 0.5, label, color=ON_COLOR, ha="center", va="center", fontsize=9)
    ax.set(xlim=(0, len(labels)), ylim=(-0.1, 1.1))
    ax.set_title(title, loc="left")
    ax.axis("off")


def color_key(figure: Figure, names: dict[str, str]) -> None:
    """What the colours mean, in a row under the figure: name -> colour."""
    patches = [Rectangle((0, 0), 1, 1, color=color) for color in names.values()]
    figure.legend(patches, names, loc="outside lower center", ncols=len(names))


def cite(figure: Figure, source: str) -> None:
    """Under the figure, in small print: where its numbers were measured."""
    figure.supxlabel(source, fontsize=7.5, color=INK)


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
    figure, ax = plt.subplots(figsize=(7.0, 0.9 + 0.42 * len(times)))
    bars_on(ax, times, [_bar_color(name) for name in times], room=1.1)
    ax.set(xlabel="device time in microseconds (shorter is better)", title=title)
    cite(figure, measurement.source)
    plt.show()


def _bar_color(name: str) -> str:
    if "copy" in name:
        return INK
    return BLUE if name in _PYTORCH else GREEN
