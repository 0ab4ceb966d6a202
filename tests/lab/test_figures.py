"""Figures of GPUs that nobody has measured, sliders, and a tile's threads."""

from base64 import b64decode, b64encode
from dataclasses import replace
from io import BytesIO

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image
from traitlets import TraitError

import rope_lab as lab
from rope_lab.figures import style
from rope_lab.figures.sliders import WIDGET_VIEW as VIEW
from rope_lab.n05 import figures as figures_05
from rope_lab.n09 import figures as figures_09
from rope_lab.records import recorded
from rope_lab.run_notebooks import with_palette
from rope_lab.timing import Timing

pytestmark = pytest.mark.usefixtures("shown")


def scaled(key, factor):
    """The record of this key from a GPU on which everything takes `factor` times as long."""
    record = recorded(key)
    us = {name: factor * timing.median_us for name, timing in record.cases.items()}
    return replace(record, cases={name: Timing(x, x, x, 0.0, 1) for name, x in us.items()})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", (0.5, 30))
def test_figures_of_slow_and_fast_gpus_say_what_they_show(factor, shown):
    figures_09.climb(scaled("09/rungs", factor))
    style.time_bars(scaled("02/eager-against-fused", factor), "title")
    assert len(shown) == 2
    for figure, words in shown:
        title = " ".join((figure.get_suptitle() or figure.axes[0].get_title("left")).split())
        assert title and words.startswith(title) and words.endswith(".")
        assert len(words) > len(title) + 2 and "\n" not in words


def contrast(color, ground):
    """As the Web Content Accessibility Guidelines define it."""

    def luminance(name):
        x = np.array(matplotlib.colors.to_rgb(name))
        linear = np.where(x <= 0.03928, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
        return linear @ (0.2126, 0.7152, 0.0722)

    low, high = sorted((luminance(color), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def test_figures_are_read_on_any_page(shown):
    """Their ground is part of the picture, as stored, too."""
    for name in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"):
        assert contrast(matplotlib.rcParams[name], "white") >= 7
    for color in (style.GREY, *style.PROGRAM_COLORS):
        assert contrast(color, "white") >= 3
        assert contrast(style.ON_COLOR, color) >= 4.5
    figures_05.tile(rows=4, existing=3, pairs=8, real_pairs=6)
    ((figure, _),) = shown
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    stored = b64decode(with_palette(b64encode(buffer.getvalue()).decode()))
    assert Image.open(BytesIO(stored)).convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255)


def test_parts_of_a_bar_differ_without_color(shown):
    """The palette's colors are nearly one shade of grey."""
    figures_09.climb(recorded("09/rungs"))
    ((figure, _),) = shown
    keys = figure.legends[0].get_patches()
    assert [patch.get_hatch() for patch in keys] == [None, "///"]
    parts_of_bars = [bar for bar in figure.axes[0].patches if bar.get_x() > 0 and bar.get_width()]
    assert parts_of_bars and {bar.get_hatch() for bar in parts_of_bars} == {"///"}


@pytest.mark.parametrize("rows, warps", ((8, 4), (1, 4), (8, 1), (32, 2)))
def test_each_warp_of_a_tile_is_named_on_it_and_the_threads_of_pair_0(rows, warps, shown):
    figures_05.who_holds_what(rows, warps)
    ((figure, _),) = shown
    warp, lane = figures_05.dealt_out(rows, warps)
    names = set()
    for text in figure.axes[0].texts:
        pair, row = map(round, text.get_position())
        thread = str(32 * warp[row, pair] + lane[row, pair])
        assert text.get_text() == (f"warp {warp[row, pair]}" if pair > 8 else thread)
        names.add(text.get_text())
    threads = len(set(zip(warp[:, 0], lane[:, 0], strict=True)))
    assert len(names) == warps + threads
    number, shares = np.unique(32 * warp + lane, return_counts=True)
    assert number.tolist() == list(range(32 * warps)) and len(set(shares)) == 1
    in_columns = {len(set(column)) for column in (32 * warp + lane).T.tolist()}
    assert in_columns == {rows / max(1, rows / (2 * warps))}  # as notebook 05 counts evaluations
    assert figure.get_suptitle().startswith(f"{threads} thread")


# sliders


def a_line(length, color):
    figure, ax = plt.subplots(figsize=(3, 2))
    ax.plot([0, length], [0, 0], color=color)
    ax.set(xlabel="length", ylabel="height")
    style.finish(figure, f"The line is {length} long")


def of_the_line(length, color):
    return f"{color}: {length} < 9"


def explored():
    length, color = (1, range(9)), ("red", ["red", "green"])
    return lab.explore(a_line, of_the_line, length=length, color=color)


def test_a_slider_sets_the_sentence_and_the_picture(shown):
    line = explored()
    (sliders, words, image) = line.children
    assert sliders.children == (line.length, line.color)
    assert line.said == "red: 1 < 9" and words.value == "red: 1 &lt; 9"
    before = image.value
    line.length.value = 8
    assert line.said == "red: 8 < 9" and words.value == "red: 8 &lt; 9"
    assert image.value != before and image.layout.width == "300px"
    line.color.value = "green"
    assert line.said == "green: 8 < 9"
    with pytest.raises(TraitError):
        line.length.value = 9
    assert shown == [] and plt.get_fignums() == []  # else the picture appears twice


def test_a_description_has_the_numbers_and_words_of_a_figure(shown):
    figure, (bars, grid) = plt.subplots(1, 2)
    style.numbered_bars(bars, ["copy", "ours"], [62.0, 63.0], ["red", "blue"], "{:.0f}")
    grid.set_yticks([0], ["host"])
    grid.set_xticks([0, 1], ["graph", "dtype"])
    for column, ratio in enumerate(("0.11", "1.03")):
        style.write(grid, column, 0, ratio)
    style.finish(figure, "As fast as a copy")
    ((_, alt),) = shown
    assert alt == "As fast as a copy. copy 62, ours 63. host, graph, dtype, 0.11, 1.03."


def test_a_page_without_widgets_shows_the_sentence_and_the_picture():
    """ipywidgets 7 gives its widgets a method that IPython prefers, and that has neither."""
    line = explored()
    assert line._ipython_display_ is None
    data, about = DisplayFormatter().format(line)
    assert data.keys() == {VIEW, "text/plain", "image/png"} and data["text/plain"] == "red: 1 < 9"
    picture = plt.imread(BytesIO(b64decode(data["image/png"])))
    assert picture.shape[:2] == (400, 600)
    alt = "The line is 1 long. height over length."
    assert about == {"image/png": {"width": 300, "height": 200, "alt": alt}}
