"""Drawings of notebook 03 and the picture of a GPU: they draw, transparent and legible."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.text import Text

from rope_lab.figures import draw_03, gpu, style
from rope_lab.figures.alt import MOST, describe
from rope_lab.records import Measurement
from rope_lab.timing import Timing

SMALLEST_TEXT = 9  # points
OF_THE_SOURCE = "source"  # in small print, in every figure of the series


def made_up(cases):
    """A measurement with these times in microseconds."""
    timings = {name: Timing(us, us, us, 0.0, 1) for name, us in cases.items()}
    versions = {"torch": "2", "triton": "3"}
    return Measurement(key="03/x", gpu="G", versions=versions, date="2026-01-01", cases=timings)


BLOCKS = [32, 512, 16384]
SWEEP = made_up({"copy": 30.0, "block 32": 300.0, "block 512": 31.0, "block 16384": 31.0})
OF_WARPS = {
    f"{n} elements, block {b}, {w} warps": 9 for n in (16, 64) for b in BLOCKS for w in (1, 4)
}
COPIES = {"copy, 16 elements": 9, "copy, 64 elements": 9}
CURVE = made_up({f"{who}, {n} elements": n for who in ("PyTorch", "ours") for n in (16, 64)})
DRAWINGS = {
    "a GPU": gpu.draw_gpu,
    "a GPU with labels": lambda: gpu.draw_gpu(dict.fromkeys(gpu.PARTS, "N bytes"), "RoPE"),
    "who loads what": lambda: draw_03.who_loads_what(10, 4),
    "warps and lanes": lambda: draw_03.warps_and_lanes(2, 4),
    "every eighth": lambda: draw_03.every_eighth(4),
    "partners": lambda: draw_03.partners(24, 12, 8),
    "host and device": lambda: draw_03.host_and_device(15, 4, 34, 4),
    "bars": lambda: draw_03.bars(SWEEP, "title", ("block 32",), ("copy",)),
    "curves": lambda: draw_03.curves(CURVE, CURVE, [16, 64]),
    "sweep": lambda: draw_03.block_sweep(SWEEP, BLOCKS),
    "sweep of warps": lambda: draw_03.sweep_of_warps(made_up(OF_WARPS | COPIES), [16, 64], BLOCKS),
}


@pytest.fixture
def figure(request, monkeypatch):
    """What a drawing of this name draws."""
    matplotlib.use("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    with matplotlib.rc_context():
        style.style()
        plt.close("all")
        DRAWINGS[request.param]()
        (number,) = plt.get_fignums()
        yield plt.figure(number)
        plt.close("all")


@pytest.mark.parametrize("figure", DRAWINGS, indirect=True)
@pytest.mark.filterwarnings("error")
def test_drawings_draw_and_can_be_read(figure):
    figure.canvas.draw()
    assert all(ax.get_facecolor()[3] == 0 for ax in figure.axes)  # transparent
    assert any(ax.get_title() or ax.get_title(loc="left") for ax in figure.axes)
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    small = {t.get_text() for t in shown if t.get_fontsize() < SMALLEST_TEXT}
    assert small <= {SWEEP.source, OF_THE_SOURCE}


def texts_of(figure):
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.mark.parametrize("figure", ["a GPU"], indirect=True)
def test_the_picture_of_a_gpu_says_how_large_each_part_is(figure):
    assert {*gpu.H200.values(), "132 SMs"} <= set(texts_of(figure))


@pytest.mark.parametrize("figure", ["a GPU with labels"], indirect=True)
def test_each_part_of_the_gpu_takes_a_label(figure):
    labelled = [text for text in texts_of(figure) if text.endswith("N bytes")]
    assert len(labelled) == len(gpu.PARTS) and "HBM\n141 GB\nN bytes" in labelled


def test_a_label_for_a_part_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no part 'l3'; parts are warps, registers"):
        gpu.draw_gpu({"l3": "x"})


# what is stored with a picture for those who do not see it


def test_a_figure_is_described_by_its_title_axes_and_legend():
    figure, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2], label="ours")
    left.set(title="Ours is\nfaster", xlabel="elements", ylabel="us")
    left.legend()
    right.set_title("And smaller", loc="left")
    assert describe(figure) == "Ours is faster. us over elements. ours. And smaller"
    left.set_title("word " * 200)
    assert len(describe(figure)) <= MOST and describe(figure).endswith("…")
    plt.close(figure)


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_drawing_says_what_it_shows(name, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    DRAWINGS[name]()
    described = [describe(plt.figure(number)) for number in plt.get_fignums()]
    plt.close("all")
    assert described and all(len(text) >= 12 for text in described)


def test_pictures_are_stored_with_their_description():
    shell = InteractiveShell.instance()
    try:
        style.style()
        style.style()  # as every notebook's first cell, run twice
        figure, ax = plt.subplots()
        ax.set_title("It says what it shows")
        _, about = shell.display_formatter.format(figure, include=["image/png"])
        assert about["image/png"]["alt"] == "It says what it shows"
    finally:
        plt.close("all")
        InteractiveShell.clear_instance()
