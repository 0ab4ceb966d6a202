"""Labels beside what they name, each at a place where it can be read.

Points and lines move with what a GPU measures, so no fixed offset is right on every GPU. A label
comes with the places that it may take, and `place_labels` tries them on the finished figure.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from . import audit

GAP = 5  # pixels between labels


class Place(NamedTuple):
    """Where a label may be."""

    point: tuple[float, float]  # what it names
    aside: tuple[float, float]  # from there to the text, in points
    ha: str = "left"
    va: str = "center"


Ring = list[Place]  # places that are about as far from what they name


def beside(ax: Axes, text: str, rings: list[Ring], **look) -> None:
    """A label that `place_labels` puts at one of these places; the first ring is the nearest."""
    first = rings[0][0]
    label = ax.annotate(text, first.point, first.aside, textcoords="offset points", **look)
    label.set_in_layout(False)  # the layout is final before the label has its place
    label.rings = rings


def around(point: tuple[float, float]) -> list[Ring]:
    """Places on all sides of a point."""
    return [
        [
            Place(point, (far, -5)),
            Place(point, (-far, 2), "right"),
            Place(point, (far, 5)),
            Place(point, (-far, -5), "right"),
            Place(point, (-far / 2, far), "right", "bottom"),
            Place(point, (far / 2, -far), "left", "top"),
            Place(point, (far / 2, far), "left", "bottom"),
            Place(point, (-far / 2, -far), "right", "top"),
            Place(point, (0, far), "center", "bottom"),
            Place(point, (0, -far), "center", "top"),
        ]
        for far in (12, 24, 36, 48)
    ]


def along(points: list[tuple[float, float]]) -> list[Ring]:
    """Places above and below points of a flat line, and farther from it."""
    return [
        [
            Place(point, (0, sign * far), va=va)
            for point in points
            for sign, va in ((1, "bottom"), (-1, "top"))
        ]
        for far in range(4, 41, 6)
    ]


def place_labels(figure: Figure) -> None:
    """Put each label of `beside` where it meets no text and hides nothing, near what it names."""
    labels = figure.findobj(lambda artist: hasattr(artist, "rings"))
    if not labels:
        return
    with audit.laid_out(figure):
        ground = audit.without_texts(figure)
        others = [text for text in audit.drawn_texts(figure) if text not in labels]
        taken = [text.get_window_extent() for text in others]
        for label in labels:
            _put(label, _best(label, taken, ground))
            taken.append(label.get_window_extent())


def _best(label: Annotation, taken: list[Bbox], ground: np.ndarray) -> Place:
    """The place that hides least, of the nearest ring that has one to read the label at."""
    hidden = {}
    for ring in label.rings:
        for place in ring:
            _put(label, place)
            box = label.get_window_extent()
            crowded = any(box.padded(GAP).overlaps(other) for other in taken)
            if _inside(label.axes, box) and not crowded:
                hidden[place] = audit.hidden_share(label, box, ground)
        if hidden and min(hidden.values()) <= audit.HIDDEN_SHARE:
            break
    return min(hidden, key=hidden.get, default=label.rings[0][0])


def _put(label: Annotation, place: Place) -> None:
    label.xy, label.xyann = place.point, place.aside
    label.set(ha=place.ha, va=place.va)


def _inside(ax: Axes, box: Bbox) -> bool:
    room = ax.bbox
    return room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
