"""Figures can be read: on light and dark pages, on a laptop, and by those who do not see them.

`pytest --nbval notebooks` and `make notebooks` audit every figure of the notebooks with the data
that it shows there. Here the drawings are audited one by one, with records and made-up data, and
the audit is shown figures that it has to refuse.
"""

from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from pairwise import chosen_from
from rope_kernels import mrope_axes
from rope_lab.figures import (
    audit,
    draw_01,
    draw_02,
    draw_03,
    draw_04,
    draw_05,
    draw_06,
    draw_07,
    draw_08,
    draw_09,
    draw_10,
    draw_12_context,
    draw_13,
    draw_ladder,
    gpu,
    labels,
    style,
)
from rope_lab.figures.roofline import RooflineExplorer
from rope_lab.figures.widgets import (
    PermutationExplorer,
    RotationExplorer,
    TileExplorer,
    WhoLoadsWhat,
)
from rope_lab.profiling.roofline import Machine
from rope_lab.records import Measurement, recorded
from rope_lab.steps.fingerprint import CHANGES
from rope_lab.timing import Timing

MARKS = ("BLUE", "ORANGE", "GREEN", "RED", "PURPLE", "GREY")
MACHINE = Machine(start_us=4.4, bytes_a_us=4.4e6, instructions_a_us=33e6)


def made_up(cases):
    """A measurement with these times in microseconds, and a source as long as a real one."""
    timings = {name: Timing(us, us, us, 0.0, 1) for name, us in cases.items()}
    versions = {"torch": "2.11.0+cu130", "triton": "3.6.0", "driver": "580.1", "python": "3.12.3"}
    about = {"gpu": "NVIDIA H200", "versions": versions, "date": "2026-01-01"}
    return Measurement(key="03/x", cases=timings, **about)


BLOCKS = [32, 512, 16384]
SWEEP = made_up({"copy": 30.0, "block 32": 300.0, "block 512": 31.0, "block 16384": 31.0})
OF_WARPS = {
    f"{n} elements, block {b}, {w} warps": 9 for n in (16, 64) for b in BLOCKS for w in (1, 4)
}
COPIES = {"copy, 16 elements": 9, "copy, 64 elements": 9}
CURVE = made_up({f"{who}, {n} elements": n for who in ("PyTorch", "ours") for n in (16, 64)})
TILES = [(rows, warps) for rows in (4, 8, 16, 32) for warps in (1, 2, 4)]
CODES = {
    (rows, warps): SimpleNamespace(
        registers=min(255, 20 * rows // warps),
        programs_at_a_time=max(4, 40 // rows),
        spilled=964 if (rows, warps) == (32, 1) else 0,
        occupancy=1 / rows,
    )
    for rows, warps in TILES
}
SWEEP_OF_05 = {
    "gpu": "NVIDIA H200",
    "date": "2026-01-01",
    "cases": {"copy": {"median_us": 60.0}}
    | {f"{r} rows, {w} warps": {"median_us": 60.0 + 5 * r * w} for r, w in TILES},
}
LAYOUTS = {warps: SimpleNamespace(size_per_thread=(1, 8)) for warps in (1, 4)}
ROWS = {"operators": [["aten::mul", 0.0, 5.0]], "launches": [["l", 1.0, 2.0]]}
ROWS["kernels"] = [["k", 6.0, 50.0], ["sliver", 60.0, 0.1]]
WAITS = {"long_scoreboard": 9.6, "wait": 1.1, "selected": 1.0, "not_selected": 0.9}
WAITS |= {"short_scoreboard": 0.5, "mio_throttle": 0.5}
POINTS = {"eager, needed": (0.08, 1.5e5), "ours, needed": (0.5, 2e6), "ours, executed": (3, 1.4e7)}


def owner(layout, row, pair):
    return row // 2 % 4, row % 2 * 16 + pair // 8


def one_figure(drawing, **size):
    """A drawing that is given axes, on a figure of its own."""
    _, ax = plt.subplots(**size)
    drawing(ax)
    plt.show()


def memory_lines():
    _, axes = plt.subplots(2, 1, figsize=(8.0, 3.0))
    for ax in axes:
        labels = [f"token {i}\nhead 0" for i in range(8)]
        style.memory_order(ax, labels, [style.BLUE] * 8, "In memory order")


def draw_bars_of(key):
    style.time_bars(recorded(key), "A conclusion that is as long as the longest ones of the series")


DRAWINGS = {
    "bars of 00": lambda: draw_bars_of("00/where-this-leads"),
    "bars of 02": lambda: draw_bars_of("02/eager-against-fused"),
    "pairing": lambda: one_figure(
        lambda ax: style.pairing(ax, [(0, 4), (1, 5), (2, 6), (3, 7)], "half-split")
    ),
    "memory order": memory_lines,
    "a turn": lambda: draw_01.a_turn(torch.tensor([1.0, 0.2]), torch.tensor([0.49, 0.895]), 50),
    "scores": lambda: draw_01.scores(torch.eye(16)),
    "fast and slow": lambda: draw_01.fast_and_slow(10000.0 ** -(torch.arange(64) / 64), 4096),
    "formats": lambda: draw_02.formats({"s": 3, "b": 2, "h": 2, "d": 4}),
    "pairings": lambda: draw_02.pairings(8),
    "arrows": lambda: one_figure(
        lambda ax: (style.plane(ax, title="R turns v"), style.arrow(ax, (0.6, 0.8), "red", "v")),
        figsize=(3.6, 3.4),
    ),
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
    "three owners": lambda: draw_04.show_owners(
        {name: [k // n for k in range(8)] for name, n in (("a", 2), ("b", 4), ("c", 8))}, 8
    ),
    "two warps": lambda: one_figure(
        lambda ax: draw_04.warp_timeline(ax, (0, 5.2), "Warp 1 is late"), figsize=(7.4, 2.0)
    ),
    "loads and stores": lambda: one_figure(
        lambda ax: draw_05.loads_and_stores(
            ax, [((i, i + 4), (i, i + 4), 0) for i in range(4)], "half-split: read once"
        ),
        figsize=(4.2, 3.0),
    ),
    "a tile": lambda: one_figure(lambda ax: draw_05.tile(ax, 4, 3, 8, 6), figsize=(8.0, 3.6)),
    "threads of a tile": lambda: one_figure(
        lambda ax: draw_05.threads_of_a_tile(ax, 8, 4), figsize=(4.2, 3.0)
    ),
    "sweep of tiles": lambda: draw_05.tile_sweep(
        recorded("05/tile-sweep"), (1, 2, 4, 8, 16, 32), (1, 2, 4), lambda R, w: 4 / max(1, R / w)
    ),
    "circles": lambda: draw_06.images_of_circle(
        {"matching halves": (0.9, 0.9), "mismatched halves": (0.3, 1.2)}
    ),
    "contiguous or not": lambda: draw_06.contiguous_or_not([1.0, 4.0, 9.0, 5.0]),
    "forward and backward": lambda: draw_06.forward_and_backward(
        recorded("06/forward-and-backward"),
        {"eager": ("eager forward", "eager backward"), "ours": ("rope_fw", "rope_bw")},
        "The backward costs what the forward costs",
    ),
    "stages": draw_07.stages,
    "one line": lambda: draw_07.one_line_down(None, "x1 ="),
    "all lines": lambda: draw_07.instructions_by_line(None),
    "layouts": lambda: draw_07.owners(LAYOUTS, owner),
    "occupancy": lambda: draw_07.occupancy_and_speed(
        CODES, dict.fromkeys(TILES, 65536), dict.fromkeys(TILES, 4), SWEEP_OF_05
    ),
    "branches": lambda: draw_07.branches({"bfloat16": (450, 0), "fp32": (691, 860)}, "title"),
    "errors": lambda: draw_07.errors_of_turns(
        np.array([1, 10, 100]), {n: np.array([1e-8, 1e-7, 1e-6]) for n in ("no care", "integers")}
    ),
    "mistakes": lambda: draw_08.mistakes(
        {"1 not waiting": 0.35, "2 first call counted": 57.0, "3 the same buffers": 0.48}, "source"
    ),
    "cold and warm": lambda: draw_08.cold_and_warm(
        [2 * size for size in recorded("08/cold-and-warm")["bytes"]],
        recorded("08/cold-and-warm")["cold"],
        recorded("08/cold-and-warm")["warm"],
        4.8e6,
        recorded("08/cold-and-warm").origin,
    ),
    "knee": lambda: draw_08.knee({"copy": ([1e6, 1e9], [4, 250])}, MACHINE, "title", "source"),
    "fingerprints": lambda: draw_08.fingerprints(
        recorded("08/five-limits").values, CHANGES, recorded("08/five-limits").origin
    ),
    "roofline": lambda: draw_08.roofline(POINTS, MACHINE, "source"),
    "measured roof": lambda: draw_08.measured_roof([0, 8, 512], [64, 64, 999], MACHINE, 2**26, "s"),
    "timeline": lambda: draw_08.timeline({"eager": ROWS, "eager, small": ROWS}, "source"),
    "stalls": lambda: draw_08.stalls({"naive": WAITS, "ours": WAITS}, "source"),
    "rows": lambda: draw_rows_at(1),
    "climb": lambda: draw_ladder.climb(recorded("09/rungs")),
    "two clocks": lambda: draw_09.host_and_device(
        {"x * 2": 9.0, "the whole call": 27.0, "CUDA graph": 3.0},
        4.4, 4.4e6, [2**16, 2**23, 2**30], "Below 50 MiB the host decides",
    ),
    "heads": lambda: draw_10.heads_of_tokens(5, 4, 2),
    "scalings": lambda: draw_12_context.kept_shares(
        torch.logspace(1.6, -2.1, 16), {"none": torch.ones(16), "yarn": torch.linspace(1, 0, 16)},
        "A scaling slows the slow pairs down",
    ),
    "loss by position": lambda: draw_12_context.loss_by_position(
        {when: {"none": 3 * [64 * [1.5]]} for when in ("as trained", "after fine-tuning")},
        32, 256, 1.5, "The loss grows past the training length", made_up({}).source,
    ),
    "bf16 positions": lambda: draw_12_context.scores_by_distance(
        {"exact": torch.rand(99), "bf16 positions": torch.zeros(99)}, "Neighbors share a position",
    ),
    "sections": lambda: draw_12_context.sections(
        {"blocks": mrope_axes((16, 24, 24)), "turns": mrope_axes((24, 20, 20), interleaved=True)},
        "Each axis has fast pairs and slow ones",
    ),
    "grids": lambda: draw_12_context.scores_on_grids(
        {(3, 4): torch.rand(9, 12), (5, 8): torch.rand(9, 12)}, "The pattern moves with the query",
    ),
    "ranks": lambda: draw_13.causal_work(
        {"a": 4 * [0, 1, 2, 3], "b": 16 * [0]}, {"a": [1, 1, 1, 1], "b": [0.2, 0.8, 1.2, 1.8]},
        "All ranks have the same work",
    ),
}  # fmt: skip
LINES = {1: "def kernel():", 2: "x1 = tl.load(t_ptr + offset).to(tl.float32)", 3: "y = tl.cos(x1)"}


def operations(code, stage, piece=""):
    texts = ["mad.wide.s32 %rd3, %r130, 2, %rd12;"] * 9
    return [SimpleNamespace(text=text, line=2 + n % 2) for n, text in enumerate(texts)]


@pytest.fixture(autouse=True)
def like_a_notebook(monkeypatch):
    matplotlib.use("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setattr(draw_07, "kernel_lines", lambda code: LINES)
    monkeypatch.setattr(draw_07, "operations", operations)
    monkeypatch.setattr(draw_07, "executed", lambda code: operations(code, "sass")[::2])
    with matplotlib.rc_context():
        style.style()
        plt.close("all")
        yield
        plt.close("all")


@pytest.fixture
def figure(request):
    """What a drawing of this name draws."""
    DRAWINGS[request.param]()
    (number,) = plt.get_fignums()
    return plt.figure(number)


@pytest.mark.parametrize("figure", DRAWINGS, indirect=True)
@pytest.mark.filterwarnings("error")
def test_drawings_can_be_read_and_say_what_they_show(figure):
    assert audit.problems(figure) == []
    titles = [ax.get_title(loc) for ax in figure.axes for loc in ("left", "center")]
    assert any([figure.get_suptitle(), *titles])
    words = style.description(figure)
    assert figure.described_as and words.endswith(".") and "\n" not in words
    title = figure.get_suptitle() or figure.axes[0].get_title("left")
    assert not title or words.startswith(" ".join(title.split()))


# what is measured moves points, lines and labels: figures can be read on any GPU

H100 = Machine(start_us=4.27, bytes_a_us=3.349e6, instructions_a_us=33.5e6)
MEMORIES = (4.0, 0.3), (8.0, 1.0), (3.0, 3.35), (2.0, 8.0)
PEAKS = 3, 10, 33.5, 80
SHARES_OF_ROOF = [(0.4, 0.4, 0.4), (0.41, 0.84, 0.99), (1.02, 1.02, 1.02)]  # eager, naive, ours
ROOFLINES = [(H100, shares) for shares in SHARES_OF_ROOF] + [
    (Machine(start_us, 1e6 * bandwidth, 1e6 * peak), shares)
    for (start_us, bandwidth), peak, shares in chosen_from(
        MEMORIES, (3, 10, 33.5, 80), SHARES_OF_ROOF
    )
]
MACHINES = [H100, *(Machine(start_us, 1e6 * bandwidth, 80e6) for start_us, bandwidth in MEMORIES)]
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


def scaled(key, factor):
    """The record of this key from a GPU on which everything takes `factor` times as long."""
    cases = recorded(key).cases
    return made_up({name: factor * timing.median_us for name, timing in cases.items()})


def draw_rows_at(factor):
    """The choice of rows on a GPU on which everything takes `factor` times as long."""
    sweep = scaled("09/rows", factor)
    measured = {rows: sweep[f"{rows} rows"].median_us for rows in (2, 4, 8, 16, 32)}
    starts = {rows: factor * 164 / rows for rows in measured}
    limits = {"bytes": {rows: factor * 65 for rows in measured}, "program starts": starts}
    title = "Too few rows: too many program starts. Too many rows: spills"
    draw_09.rows(measured, limits, sweep["copy"].median_us, title, sweep.source)


def assert_it_can_be_read(drawing, *arguments):
    drawing(*arguments)
    assert audit.problems(plt.gcf()) == [], arguments
    plt.close("all")


@pytest.mark.parametrize("machine, shares", ROOFLINES)
def test_the_roofline_of_any_gpu_can_be_read(machine, shares):
    assert_it_can_be_read(draw_08.roofline, placed(machine, shares), machine, SWEEP.source)


@pytest.mark.parametrize("machine", MACHINES)
def test_host_times_of_any_machine_can_be_read(machine):
    for host_us in HOST_US:
        host = dict(zip(HOST_CASES, host_us, strict=True))
        law = machine.start_us, machine.bytes_a_us, [2**e for e in range(16, 31)]
        assert_it_can_be_read(draw_09.host_and_device, host, *law, "title")


@pytest.mark.parametrize("factor", (0.5, 1.4, 30))
def test_figures_of_slow_and_fast_gpus_can_be_read(factor):
    assert_it_can_be_read(draw_ladder.climb, scaled("09/rungs", factor))
    assert_it_can_be_read(draw_rows_at, factor)
    assert_it_can_be_read(style.time_bars, scaled("02/eager-against-fused", factor), "title")
    both = {"eager": ("eager forward", "eager backward"), "ours": ("rope_fw", "rope_bw")}
    times = scaled("06/forward-and-backward", factor)
    assert_it_can_be_read(draw_06.forward_and_backward, times, both, "title")


def test_labels_of_points_in_one_place_get_places_of_their_own():
    figure, ax = plt.subplots()
    for name in "one", "another", "a third":
        labels.beside(ax, name, labels.around((0.5, 0.5)))
    labels.place_labels(figure)
    assert audit.problems(figure) == []
    assert len({text.xyann for text in ax.texts}) == 3


def test_a_label_without_any_place_stays_where_the_audit_finds_it():
    figure, ax = plt.subplots()
    ax.axhspan(0, 1, color=style.GREY)
    labels.beside(ax, "hidden", labels.around((0.5, 0.5)))
    labels.place_labels(figure)
    assert audit.problems(figure) == ["'hidden' is hard to see on 100% of its ground"]


@pytest.mark.parametrize(
    "explorer",
    (RotationExplorer, PermutationExplorer, WhoLoadsWhat, TileExplorer, RooflineExplorer),
)
def test_pictures_of_explorers_can_be_read(explorer, monkeypatch):
    found, png = [], style.png
    monkeypatch.setattr(style, "png", lambda x: found.append(audit.problems(x)) or png(x))
    made = explorer()
    for slider in made.sliders:
        slider.value = slider.max if hasattr(slider, "max") else slider.options[0]
    assert len(found) > 1 and not any(found), found


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


def test_an_audit_leaves_the_figure_as_it_was():
    figure, _ = plt.subplots()
    engine, draw = figure.get_layout_engine(), Text.draw
    audit.problems(figure)
    assert figure.get_layout_engine() is engine and Text.draw is draw


@pytest.mark.parametrize("switch, raises", (("1", True), ("", False)))
def test_a_notebook_that_is_audited_shows_no_broken_figure(monkeypatch, switch, raises):
    monkeypatch.setenv(audit.AUDIT_SWITCH, switch)
    # in place of one that an earlier test may have had audited; it is put back afterwards
    monkeypatch.setattr(plt, "show", lambda: None)
    style.style()
    plt.figure(figsize=(3, 2)).text(0.9, 0.5, "too long for its place")
    if raises:
        with pytest.raises(audit.FigureError, match="too long for its place' leaves the figure"):
            plt.show()
    else:
        plt.show()
    plt.close("all")


# the picture of a GPU


def texts_of(figure):
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.mark.parametrize("figure", ["a GPU"], indirect=True)
def test_the_picture_of_a_gpu_says_how_large_each_part_is(figure):
    texts = texts_of(figure)
    assert {*gpu.H200.values(), "132 SMs, together\n33 MiB of registers"} <= set(texts)
    assert "33 TB/s, all SMs together" in texts


@pytest.mark.parametrize("figure", ["a GPU"], indirect=True)
def test_the_bandwidth_of_l2_is_a_measured_one(figure):
    copies = recorded("08/cold-and-warm")
    speeds = [2 * size / us / 1e6 for size, us in zip(copies["bytes"], copies["warm"], strict=True)]
    assert f"{max(speeds):.1f} TB/s\nor more" in texts_of(figure)


@pytest.mark.parametrize("figure", ["a GPU with labels"], indirect=True)
def test_each_part_of_the_gpu_takes_a_label(figure):
    labelled = [text for text in texts_of(figure) if text.endswith("N bytes")]
    assert len(labelled) == len(gpu.PARTS) and "HBM\n141 GB\nN bytes" in labelled


def test_a_label_for_a_part_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no part 'l3'; parts are warps, registers"):
        gpu.draw_gpu({"l3": "x"})


# what is stored with a picture for those who do not see it
