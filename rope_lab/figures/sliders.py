"""Sliders, and a sentence and a picture that follow them; notebooks reach it as `lab.explore`.

    turns = lab.explore(figures.two_turns, score, m=(4, range(25)), n=(1, range(25)))
    turns

shows them as the last line of a cell. The next cell moves a slider, and nbval compares what the
explorer says then:

    turns.m.value = 8
    print(turns.said)

Moving a slider sets the values of other widgets. Plain `interact` and printing `Output` widgets
fail under nbval; this does not. No pyplot figure stays open, so the picture appears once.
"""

import html
from base64 import b64encode
from collections.abc import Callable, Sequence

import ipywidgets as widgets
from IPython.core.pylabtools import retina_figure

from . import style

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class Explorer(widgets.VBox):
    """What `explore` returns. Each slider is an attribute by its name, `said` is the sentence."""

    # ipywidgets 7, which Colab has, shows a widget by this method, and not by `_repr_mimebundle_`:
    # IPython would show neither sentence nor picture.
    _ipython_display_ = None

    def __init__(self, drawing: Callable, sentence: Callable, sliders: dict) -> None:
        self._drawing, self._sentence, self._sliders = drawing, sentence, sliders
        self._words, self._image = widgets.HTML(), widgets.Image(layout={"max_width": "100%"})
        row = widgets.HBox(list(sliders.values()), layout={"flex_flow": "row wrap"})
        super().__init__([row, self._words, self._image])
        for name, slider in sliders.items():
            setattr(self, name, slider)
            slider.observe(self._update, "value")
        self._update()

    def _update(self, _change=None) -> None:
        values = {name: slider.value for name, slider in self._sliders.items()}
        figure, self._alt = style.drawn(self._drawing, **values)
        self._image.value, self._size = retina_figure(figure, bbox_inches=None)
        self._image.layout.width = f"{self._size['width']}px"
        self.said = self._sentence(**values)
        self._words.value = html.escape(self.said)

    def _repr_mimebundle_(self, **options) -> tuple[dict, dict]:
        """The widgets for JupyterLab; for pages that show no widgets, the picture as it is now."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        picture = b64encode(self._image.value).decode()
        data = {WIDGET_VIEW: view, "text/plain": self.said, "image/png": picture}
        return data, {"image/png": self._size | {"alt": self._alt}}


def explore(drawing: Callable, sentence: Callable, **choices: tuple[object, Sequence]) -> Explorer:
    """Show a drawing and a sentence that depend on values, with a slider for each value.

    Args:
        drawing: a function of the values, by name, that ends with `draw.finish`.
        sentence: a function of the same values that returns a sentence about the picture.
        **choices: name of a value -> its initial value, and all possible values. Values that are
            strings get a menu instead of a slider.
    """
    sliders = {}
    for name, (first, values) in choices.items():
        kind = widgets.Dropdown if isinstance(first, str) else widgets.SelectionSlider
        sliders[name] = kind(options=values, value=first, description=name)
        sliders[name].style.description_width = "initial"
    return Explorer(drawing, sentence, sliders)
