"""What a figure shows, in words: its alternative text, stored with the picture."""

from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.figure import Figure

MOST = 400  # characters


def describe(figure: Figure) -> str:
    """Its titles, what each of its axes has, and what its legends name; '' if it says nothing."""
    found = [figure.get_suptitle(), *(part for ax in figure.axes for part in _of_axes(ax))]
    found += [_named(legend) for legend in figure.legends]
    parts = list(dict.fromkeys(" ".join(part.split()).rstrip(".") for part in found))
    text = ". ".join(part for part in parts if part)
    return text if len(text) <= MOST else text[: MOST - 1].rsplit(" ", 1)[0] + "…"


def _of_axes(ax: Axes) -> list[str]:
    titles = [ax.get_title(where) for where in ("left", "center", "right")]
    x, y = ax.get_xlabel(), ax.get_ylabel()
    axes = f"{y} over {x}" if x and y else x or y
    legend = ax.get_legend()
    parts = [*titles, axes, _named(legend) if legend else ""]
    if not axes:  # a drawing: what is written on it says what it shows
        parts.append(", ".join(filter(None, (text.get_text() for text in ax.texts))))
    return parts


def _named(legend) -> str:
    return ", ".join(text.get_text() for text in legend.get_texts())


def store_with_pictures() -> None:
    """From now on, pictures of figures in a notebook come with their description."""
    shell = get_ipython()
    if shell is None:
        return
    pictures = shell.display_formatter.formatters["image/png"]
    draw = pictures.lookup_by_type(Figure)
    if getattr(draw, "describes", False):
        return

    def with_description(figure: Figure):
        drawn = draw(figure)
        picture, about = drawn if isinstance(drawn, tuple) else (drawn, {})
        text = describe(figure)
        return picture, about | ({"alt": text} if text else {})

    with_description.describes = True
    pictures.for_type(Figure, with_description)
