"""Finds what cannot be read in a figure: collisions, small text, weak contrast.

`ROPE_LAB_AUDIT_FIGURES=1` makes every figure that a notebook shows go through it. Tests and
`make notebooks` set it, so a figure that its data has spoiled fails there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

AUDIT_SWITCH = "ROPE_LAB_AUDIT_FIGURES"  # "1": a figure that cannot be read is an error

WIDTH = 8.4  # inches of 100 pixels; a laptop shows a figure of this width as it is
SMALL = 9  # points; the smallest text
LEAST_CONTRAST = 4.5  # of text, as WCAG 2.1 asks it
SLACK = 0.5  # pixels by which boxes may touch
HIDDEN_SHARE = 0.02  # of a label's box, for instance a grid line through it


class FigureError(AssertionError):
    """A figure cannot be read."""


def audit_what_is_shown() -> None:
    """Raise a `FigureError` from `plt.show` if a figure that it shows has problems."""
    if hasattr(plt.show, "audits"):
        return
    show = plt.show

    def audit_and_show(*args, **kwargs):
        for number in plt.get_fignums():
            audit(plt.figure(number))
        return show(*args, **kwargs)

    audit_and_show.audits = True
    plt.show = audit_and_show


def audit(figure: Figure) -> None:
    if found := problems(figure):
        raise FigureError("a figure cannot be read:\n" + "\n".join(found))


def problems(figure: Figure) -> list[str]:
    """What keeps readers from reading this figure at the size at which a laptop shows it."""
    with laid_out(figure):
        return _problems(figure)


@contextmanager
def laid_out(figure: Figure) -> Iterator[None]:
    """Everything is where readers see it, and stays there, on a canvas that has pixels."""
    if not isinstance(figure.canvas, FigureCanvasAgg):
        FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # lays it out
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")  # a second time would move things
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _problems(figure: Figure) -> list[str]:
    texts = drawn_texts(figure)
    boxes = {text: Text.get_window_extent(text) for text in texts}
    return [
        *_too_wide(figure),
        *(f"{_name(t)} is {t.get_fontsize():g} pt" for t in texts if t.get_fontsize() < SMALL),
        *_overlaps(boxes),
        *_outside(figure, boxes),
        *_in_other_axes(figure, boxes),
        *_hard_to_see(figure, boxes),
    ]


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """WCAG's contrast of colors (..., 3) with parts from 0 to 1: from 1 to 21."""
    first, second = _luminance(one), _luminance(other)
    return (np.maximum(first, second) + 0.05) / (np.minimum(first, second) + 0.05)


def _luminance(color: np.ndarray) -> np.ndarray:
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def drawn_texts(figure: Figure) -> list[Text]:
    """Texts that one sees. An axis keeps labels of ticks outside its limits, and draws none."""
    drawn = {}
    draw = Text.draw

    def draw_and_note(text: Text, renderer) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn[id(text)] = text
        draw(text, renderer)

    _draw(figure, draw_and_note)
    return list(drawn.values())


def _draw(figure: Figure, draw_text: Callable) -> np.ndarray:
    """Draw a figure with another way to draw texts; its pixels (height, width, 3)."""
    draw = Text.draw
    Text.draw = draw_text
    try:
        figure.canvas.draw()
    finally:
        Text.draw = draw
    return np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255


def _too_wide(figure: Figure) -> list[str]:
    inches = figure.get_size_inches()[0]
    return [f"{inches:g} inches are wider than {WIDTH:g}"] if inches > WIDTH else []


def _overlaps(boxes: dict[Text, Bbox]) -> list[str]:
    return [
        f"{_name(one)} overlaps {_name(other)}"
        for one, other in combinations(boxes, 2)
        if meet(boxes[one], boxes[other])
    ]


def _outside(figure: Figure, boxes: dict[Text, Bbox]) -> list[str]:
    page = figure.bbox.padded(SLACK)
    shown: dict[Artist, Bbox] = dict(boxes)
    shown |= {legend: legend.get_window_extent() for legend in figure.findobj(Legend)}
    return [
        f"{_name(artist)} leaves the figure"
        for artist, box in shown.items()
        if not (page.containsx(box.x0) and page.containsx(box.x1))
        or not (page.containsy(box.y0) and page.containsy(box.y1))
    ]


def _in_other_axes(figure: Figure, boxes: dict[Text, Bbox]) -> list[str]:
    framed = [ax for ax in figure.axes if ax.axison]
    return [
        f"{_name(text)} reaches into the next axes"
        for text, box in boxes.items()
        for ax in framed
        if _owner(text) is not ax and meet(box, ax.bbox)
    ]


def _owner(text: Text) -> Axes | None:
    """The axes that a text belongs to."""
    return text.axes


def _hard_to_see(figure: Figure, boxes: dict[Text, Bbox]) -> list[str]:
    """Texts whose color is close to what is drawn under them."""
    ground = without_texts(figure)
    hidden = {text: hidden_share(text, box, ground) for text, box in boxes.items()}
    return [
        f"{_name(text)} is hard to see on {share:.0%} of its ground"
        for text, share in hidden.items()
        if share > HIDDEN_SHARE
    ]


def without_texts(figure: Figure) -> np.ndarray:
    """The pixels (height, width, 3) of all that is not text."""
    return _draw(figure, lambda text, renderer: None)


def hidden_share(text: Text, box: Bbox, ground: np.ndarray) -> float:
    """The share of a box in which the text has too little contrast with what is under it."""
    height, width, _ = ground.shape
    left, right = (int(np.clip(x, 0, width)) for x in (box.x0, np.ceil(box.x1)))
    bottom, top = (int(np.clip(y, 0, height)) for y in (box.y0, np.ceil(box.y1)))
    under = ground[height - top : height - bottom, left:right]
    if under.size == 0:
        return 0.0  # it leaves the figure
    return (contrast(under, np.array(to_rgb(text.get_color()))) < LEAST_CONTRAST).mean()


def meet(one: Bbox, other: Bbox) -> bool:
    return one.padded(-SLACK).overlaps(other.padded(-SLACK))


def _name(artist: Artist) -> str:
    return repr(artist.get_text()) if isinstance(artist, Text) else "a legend"
