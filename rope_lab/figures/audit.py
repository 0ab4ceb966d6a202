"""Finds what cannot be read in a figure: collisions, small text, weak contrast.

`ROPE_LAB_AUDIT_FIGURES=1` makes every figure that a notebook shows go through it. Tests and
`make notebooks` set it, so a figure that its data has spoiled fails there.
"""

import os
from itertools import combinations
from unittest.mock import patch

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
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


def audit_if_asked(figure: Figure) -> None:
    """With the switch on, a figure that has problems is an error."""
    if os.environ.get(AUDIT_SWITCH) == "1" and (found := problems(figure)):
        raise FigureError("a figure cannot be read:\n" + "\n".join(found))


def problems(figure: Figure) -> list[str]:
    """What keeps readers from reading this figure at the size at which a laptop shows it."""
    inches = figure.get_size_inches()[0]
    found = [f"{inches:g} inches are wider than {WIDTH:g}"] if inches > WIDTH else []
    texts, ground = _texts_and_ground(figure)
    boxes = [(text, Text.get_window_extent(text).padded(-SLACK)) for text in texts]
    framed = [ax for ax in figure.axes if ax.axison]
    for text, box in boxes:
        name, size = repr(text.get_text()), text.get_fontsize()
        if size < SMALL:
            found.append(f"{name} is {size:g} pt")
        if not (figure.bbox.contains(*box.min) and figure.bbox.contains(*box.max)):
            found.append(f"{name} leaves the figure")
        elif (share := _hidden_share(text, box, ground)) > HIDDEN_SHARE:
            found.append(f"{name} is hard to see on {share:.0%} of its ground")
        if any(ax is not text.axes and box.overlaps(ax.bbox.padded(-SLACK)) for ax in framed):
            found.append(f"{name} reaches into the next axes")
    for (text, box), (other, its_box) in combinations(boxes, 2):
        if box.overlaps(its_box):
            found.append(f"{text.get_text()!r} overlaps {other.get_text()!r}")
    return found


def _texts_and_ground(figure: Figure) -> tuple[list[Text], np.ndarray]:
    """Texts that one sees, and the pixels (height, width, 3) of all that is not text.

    Only a drawing tells which texts one sees: an axis keeps labels of ticks outside its limits.
    """
    texts, canvas = [], FigureCanvasAgg(figure)

    def note(text: Text, renderer) -> None:
        if text.get_visible() and text.get_text().strip():
            texts.append(text)

    figure.draw_without_rendering()  # lays it out
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")  # a second time would move things
    with patch.object(Text, "draw", note):
        canvas.draw()
    figure.set_layout_engine(engine)
    return texts, np.asarray(canvas.buffer_rgba())[..., :3] / 255


def _hidden_share(text: Text, box: Bbox, ground: np.ndarray) -> float:
    """The share of a box in which the text has too little contrast with what is under it."""
    left, bottom, right, top = np.array(box.extents, dtype=int)  # rows count from the top
    under = ground[len(ground) - top - 1 : len(ground) - bottom, left : right + 1]
    return (contrast(under, np.array(to_rgb(text.get_color()))) < LEAST_CONTRAST).mean()


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """WCAG's contrast of colors (..., 3) with parts from 0 to 1: from 1 to 21."""
    first, second = _luminance(one), _luminance(other)
    return (np.maximum(first, second) + 0.05) / (np.minimum(first, second) + 0.05)


def _luminance(color: np.ndarray) -> np.ndarray:
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])
