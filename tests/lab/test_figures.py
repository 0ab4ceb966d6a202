"""Figures can be read: on light and dark pages, on a laptop, and by those who do not see them.

`pytest --nbval notebooks` and `make notebooks` audit every figure of the notebooks with the data
that it shows there. Here are figures whose data differs from GPU to GPU, with made-up data, and
figures that the audit has to refuse.
"""

from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from rope_lab.figures import audit, draw_06, draw_08, draw_09, draw_ladder, gpu, style
from rope_lab.profiling.roofline import Machine
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


# what is measured moves points, lines and labels: figures can be read on any GPU

H100 = Machine(start_us=4.27, bytes_a_us=3.349e6, instructions_a_us=33.5e6)
MACHINES = (
    H100,
    Machine(start_us=4.0, bytes_a_us=0.3e6, instructions_a_us=3e6),
    Machine(start_us=8.0, bytes_a_us=1e6, instructions_a_us=80e6),
    Machine(start_us=2.0, bytes_a_us=8e6, instructions_a_us=10e6),
)
SHARES_OF_ROOF = [(0.4, 0.4, 0.4), (0.41, 0.84, 0.99), (1.02, 1.02, 1.02)]  # eager, naive, ours
HOST_US = [(6.5, 16.7, 2.0), (2.2, 2.6, 1.8), (14.0, 15.5, 13.0), (36.0, 52.0, 3.0)]
HOST_CASES = "x * 2", "fast path, the whole call", "CUDA graph, a replay"


def placed(machine, shares):
    """The points of notebook 08: each kernel takes its least time over its share of the roof."""
    n, table = 2**26, 4 * 2048 * 256  # elements; bytes of the angles
    kernels = {"eager": (24 * n + 8 * table, 2), "naive": (4 * n + table, 79)}
    kernels["ours"] = 4 * n + table, 14
    points = {}
    for (name, (moved, executed)), share in zip(kernels.items(), shares, strict=True):
        us = machine.time_us(moved, executed * n) / share
        for what, count in {"needed": 2, "executed": executed}.items():
            if (name, what) != ("eager", "executed"):
                points[f"{name}, {what}"] = count * n / moved, count * n / us
    return points


def assert_they_can_be_read(shown):
    """And say what they show, beginning with the title."""
    for figure, words in shown:
        assert audit.problems(figure) == [], words
        title = " ".join((figure.get_suptitle() or figure.axes[0].get_title("left")).split())
        assert title and words.startswith(title) and words.endswith(".")
        assert len(words) > len(title) + 2 and "\n" not in words


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", range(len(MACHINES)))
def test_rooflines_and_host_times_of_any_machine_can_be_read(number, shown):
    machine = MACHINES[number]
    for shares in SHARES_OF_ROOF if number == 0 else SHARES_OF_ROOF[number - 1 : number]:
        draw_08.roofline(placed(machine, shares), machine, "a source")
    host = dict(zip(HOST_CASES, HOST_US[number], strict=True))
    law = machine.start_us, machine.bytes_a_us, [2**e for e in range(16, 31)]
    draw_09.host_and_device(host, *law, "title")
    assert_they_can_be_read(shown)


def scaled(key, factor):
    """The record of this key from a GPU on which everything takes `factor` times as long."""
    record = recorded(key)
    us = {name: factor * timing.median_us for name, timing in record.cases.items()}
    return replace(record, cases={name: Timing(x, x, x, 0.0, 1) for name, x in us.items()})


def draw_rows_at(factor):
    """The choice of rows on a GPU on which everything takes `factor` times as long."""
    sweep = scaled("09/rows", factor)
    measured = {rows: sweep[f"{rows} rows"].median_us for rows in (2, 4, 8, 16, 32)}
    starts = {rows: factor * 164 / rows for rows in measured}
    limits = {"bytes": {rows: factor * 65 for rows in measured}, "program starts": starts}
    title = "Too few rows: too many program starts. Too many rows: spills"
    draw_09.rows(measured, limits, sweep["copy"].median_us, title, sweep.source)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", (0.5, 30))
def test_figures_of_slow_and_fast_gpus_can_be_read(factor, shown):
    draw_ladder.climb(scaled("09/rungs", factor))
    draw_rows_at(factor)
    style.time_bars(scaled("02/eager-against-fused", factor), "title")
    both = {"eager": ("eager forward", "eager backward"), "ours": ("rope_fw", "rope_bw")}
    times = scaled("06/forward-and-backward", factor)
    draw_06.forward_and_backward(times, both, "title")
    assert_they_can_be_read(shown)


# the colors


def contrast(one, other):
    return audit.contrast(np.array(to_rgb(one)), np.array(to_rgb(other)))


def test_contrast_is_that_of_wcag():
    assert round(float(contrast("white", "black")), 6) == 21
    assert round(float(contrast("#767676", "white")), 2) == 4.54


def test_ink_and_text_on_colors_have_contrast():
    assert contrast(style.INK, style.PLATE) >= 7
    for name in MARKS:
        color = getattr(style, name)
        assert contrast(color, style.PLATE) >= 3, name
        assert contrast(style.inked(color), style.PLATE) >= audit.LEAST_CONTRAST, name
        if color != style.RED:  # no drawing writes on red
            assert contrast(style.ON_COLOR, color) >= audit.LEAST_CONTRAST, name


def test_the_plate_is_what_readers_see(tmp_path):
    plt.figure(figsize=(2, 1)).savefig(tmp_path / "figure.png")
    picture = plt.imread(tmp_path / "figure.png")
    assert np.allclose(picture[0, 0], (*to_rgb(style.PLATE), 1), atol=0.01)


# the audit finds what is broken


def broken(break_it):
    figure, axes = plt.subplots(1, 2, figsize=(8, 3))
    axes[0].text(0.5, 0.5, "first")
    assert audit.problems(figure) == []
    break_it(figure, axes)
    return audit.problems(figure)


BREAKS = {
    "'first' overlaps 'second'": lambda figure, axes: axes[0].text(0.52, 0.5, "second"),
    "'out' leaves the figure": lambda figure, axes: figure.text(0.98, 0.5, "out"),
    "'a mark' leaves the figure": lambda figure, axes: figure.legend(
        [plt.Circle((0, 0))], ["a mark"], loc="center left", bbox_to_anchor=(0.95, 0.2),
    ),
    "'far' reaches into the next axes": lambda figure, axes: figure.text(0.75, 0.7, "far"),
    "'small' is 7.5 pt": lambda figure, axes: axes[0].text(0.1, 0.1, "small", fontsize=7.5),
    "'pale' is hard to see": lambda figure, axes: axes[0].text(0.1, 0.1, "pale", color="#858585"),
    "'hidden' is hard to see": lambda figure, axes: (
        axes[0].text(0.1, 0.1, "hidden"), axes[0].axhspan(0, 0.3, color=style.BLUE),
    ),
    "10 inches are wider than": lambda figure, axes: figure.set_size_inches(10, 3),
}  # fmt: skip


@pytest.mark.parametrize("problem", BREAKS)
def test_the_audit_finds_what_cannot_be_read(problem):
    found = broken(BREAKS[problem])
    assert any(problem in line for line in found), found


def test_labels_of_ticks_that_are_not_drawn_do_not_count():
    figure, ax = plt.subplots()
    ax.set_xticks([0, 50], ["here", "beyond"])
    ax.set_xlim(0, 10)
    assert audit.problems(figure) == []


def test_an_audit_leaves_the_layout_as_it_was():
    figure, _ = plt.subplots()
    engine, draw = figure.get_layout_engine(), Text.draw
    audit.problems(figure)
    assert figure.get_layout_engine() is engine and Text.draw is draw


@pytest.mark.parametrize("switch, raises", (("1", True), ("", False)))
def test_a_notebook_that_is_audited_shows_no_broken_figure(monkeypatch, switch, raises, shown):
    monkeypatch.setenv(audit.AUDIT_SWITCH, switch)
    figure = plt.figure(figsize=(3, 2))
    figure.text(0.9, 0.5, "too long for its place")
    if raises:
        with pytest.raises(audit.FigureError, match="too long for its place' leaves the figure"):
            style.finish(figure, "title", "words")
    else:
        style.finish(figure, "title", "words")
    assert [words for _, words in shown] == ([] if raises else ["title. words."])


# the picture of a GPU


def test_the_picture_of_a_gpu_has_the_bandwidth_that_was_measured(shown):
    gpu.draw_gpu()
    copies = recorded("08/cold-and-warm")
    speeds = [2 * size / us / 1e6 for size, us in zip(copies["bytes"], copies["warm"], strict=True)]
    ((figure, _),) = shown
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert f"{max(speeds):.1f} TB/s\nor more" in texts
