"""Figures of GPUs that nobody has measured, and the colors that all of them have."""

from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from rope_lab.figures import draw_ladder, style
from rope_lab.records import recorded
from rope_lab.timing import Timing

MARKS = ("BLUE", "ORANGE", "GREEN", "RED", "PURPLE", "GREY")


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """Figures and their alternative texts, in place of a notebook that shows them."""
    figures = []
    matplotlib.use("agg")
    monkeypatch.setattr(
        style,
        "display",
        lambda figure, metadata: figures.append((figure, metadata["image/png"]["alt"])),
    )
    with matplotlib.rc_context():
        style.style()
        yield figures
        plt.close("all")


def scaled(key, factor):
    """The record of this key from a GPU on which everything takes `factor` times as long."""
    record = recorded(key)
    us = {name: factor * timing.median_us for name, timing in record.cases.items()}
    return replace(record, cases={name: Timing(x, x, x, 0.0, 1) for name, x in us.items()})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", (0.5, 30))
def test_figures_of_slow_and_fast_gpus_say_what_they_show(factor, shown):
    draw_ladder.climb(scaled("09/rungs", factor))
    style.time_bars(scaled("02/eager-against-fused", factor), "title")
    assert len(shown) == 2
    for figure, words in shown:
        title = " ".join((figure.get_suptitle() or figure.axes[0].get_title("left")).split())
        assert title and words.startswith(title) and words.endswith(".")
        assert len(words) > len(title) + 2 and "\n" not in words


# the colors


def contrast(one, other):
    """As WCAG 2.1 defines it, from 1 to 21."""
    light = sorted(_luminance(np.array(to_rgb(color))) for color in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


def _luminance(rgb):
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_ink_and_text_on_colors_have_contrast():
    assert contrast(style.INK, style.PLATE) >= 7
    for name in MARKS:
        color = getattr(style, name)
        assert contrast(color, style.PLATE) >= 3, name
        assert contrast(style.inked(color), style.PLATE) >= 4.5, name
        if color != style.RED:  # no drawing writes on red
            assert contrast(style.ON_COLOR, color) >= 4.5, name


def test_the_plate_is_what_readers_see(tmp_path):
    plt.figure(figsize=(2, 1)).savefig(tmp_path / "figure.png")
    picture = plt.imread(tmp_path / "figure.png")
    assert np.allclose(picture[0, 0], (*to_rgb(style.PLATE), 1), atol=0.01)
