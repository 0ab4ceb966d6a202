"""Finds what cannot be read in a figure: collisions, small text, weak contrast.

`ROPE_LAB_AUDIT_FIGURES=1` makes every figure that a notebook shows go through it. Tests and
`make notebooks` set it, so a figure that its data has spoiled fails there.
"""

import os
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
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
    """With the switch on, have `plt.show` raise a `FigureError` if a figure has problems."""
    if os.environ.get(AUDIT_SWITCH) != "1" or hasattr(plt.show, "audits"):
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
    texts, ground = _texts_and_ground(figure)
    boxes = [(text, Text.get_window_extent(text).padded(-SLACK)) for text in texts]
    page, framed = figure.bbox, [ax for ax in figure.axes if ax.axison]
    inches = figure.get_size_inches()[0]
    found = [f"{inches:g} inches are wider than {WIDTH:g}"] if inches > WIDTH else []
    legends = [legend.get_window_extent().padded(-SLACK) for legend in figure.findobj(Legend)]
    found += ["a legend leaves the figure" for box in legends if not _contains(page, box)]
    for text, box in boxes:
        name, size = repr(text.get_text()), text.get_fontsize()
        if size < SMALL:
            found.append(f"{name} is {size:g} pt")
        if not _contains(page, box):
            found.append(f"{name} leaves the figure")
        if any(ax is not text.axes and box.overlaps(ax.bbox.padded(-SLACK)) for ax in framed):
            found.append(f"{name} reaches into the next axes")
        if (share := _hidden_share(text, box, ground)) > HIDDEN_SHARE:
            found.append(f"{name} is hard to see on {share:.0%} of its ground")
    for (text, box), (other, its_box) in combinations(boxes, 2):
        if box.overlaps(its_box):
            found.append(f"{text.get_text()!r} overlaps {other.get_text()!r}")
    return found


def _contains(page: Bbox, box: Bbox) -> bool:
    return page.contains(*box.min) and page.contains(*box.max)


def _texts_and_ground(figure: Figure) -> tuple[list[Text], np.ndarray]:
    """Texts that one sees, and the pixels (height, width, 3) of all that is not text.

    Only a drawing tells which texts one sees: an axis keeps labels of ticks outside its limits.
    """
    texts = []

    def note(text: Text, renderer) -> None:
        if text.get_visible() and text.get_text().strip():
            texts.append(text)

    figure.draw_without_rendering()  # lays it out
    engine, draw = figure.get_layout_engine(), Text.draw
    figure.set_layout_engine("none")  # a second time would move things
    Text.draw = note
    try:
        figure.canvas.draw()
    finally:
        Text.draw = draw
        figure.set_layout_engine(engine)
    return texts, np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255


def _hidden_share(text: Text, box: Bbox, ground: np.ndarray) -> float:
    """The share of a box in which the text has too little contrast with what is under it."""
    height, width, _ = ground.shape
    left, right = (int(np.clip(x, 0, width)) for x in (box.x0, np.ceil(box.x1)))
    bottom, top = (int(np.clip(y, 0, height)) for y in (box.y0, np.ceil(box.y1)))
    under = ground[height - top : height - bottom, left:right]
    if under.size == 0:
        return 0.0  # it leaves the figure
    return (contrast(under, np.array(to_rgb(text.get_color()))) < LEAST_CONTRAST).mean()


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """WCAG's contrast of colors (..., 3) with parts from 0 to 1: from 1 to 21."""
    first, second = _luminance(one), _luminance(other)
    return (np.maximum(first, second) + 0.05) / (np.minimum(first, second) + 0.05)


def _luminance(color: np.ndarray) -> np.ndarray:
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])
