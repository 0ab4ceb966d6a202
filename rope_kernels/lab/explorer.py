"""Widgets to play with. Each works by value: moving a slider sets another widget's value.

So a notebook can move a slider in a cell and read what changed, and nbval tests it.
"""

import math

import ipywidgets as widgets
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from . import draw


class RotationExplorer(widgets.VBox):
    """A query at position m and a key at position n, each turned by its position times theta.

    Attributes:
        m, n: sliders for the two positions.
        theta: slider for the turn a position, in degrees.
        score: HTML; the dot product of the rotated vectors, to three decimals.
        picture: PNG of the two vectors before (dashed) and after (solid).
    """

    QUERY_ANGLE, KEY_ANGLE = math.radians(70.0), math.radians(20.0)

    def __init__(self, m: int = 4, n: int = 1, theta: int = 15) -> None:
        self.m = widgets.IntSlider(value=m, min=0, max=24, description="m (query)")
        self.n = widgets.IntSlider(value=n, min=0, max=24, description="n (key)")
        self.theta = widgets.IntSlider(value=theta, min=1, max=45, description="θ (degrees)")
        self.score = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="360px"))
        sliders = (self.m, self.n, self.theta)
        super().__init__([widgets.HBox(sliders), self.score, self.picture])
        draw.style()
        for slider in sliders:
            slider.observe(self._update, names="value")
        self._update()

    def __repr__(self) -> str:
        return "Rotation explorer: run this cell to move its sliders."

    def _update(self, _change=None) -> None:
        theta = math.radians(self.theta.value)
        query = self.QUERY_ANGLE + self.m.value * theta
        key = self.KEY_ANGLE + self.n.value * theta
        self.score.value = (
            f"m - n = {self.m.value - self.n.value}, "
            f"rotated query · rotated key = {math.cos(query - key):.3f}"
        )
        self.picture.value = self._drawn(query, key)

    def _drawn(self, query: float, key: float) -> bytes:
        figure = Figure(figsize=(3.6, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.subplots()
        draw.plane(ax)
        for before, after, color, name in (
            (self.QUERY_ANGLE, query, draw.BLUE, "q"),
            (self.KEY_ANGLE, key, draw.ORANGE, "k"),
        ):
            draw.arrow(ax, (math.cos(before), math.sin(before)), color, dashed=True)
            draw.arrow(ax, (math.cos(after), math.sin(after)), color, name)
        return draw.png(figure)
