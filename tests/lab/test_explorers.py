"""The widgets by value: what they say is counted here in another way."""

import base64
import io
import math
import re

import pytest

pytest.importorskip("ipywidgets")
pytest.importorskip("matplotlib")

import numpy as np
import torch
from PIL import Image

from rope_lab.figures.roofline import RooflineExplorer
from rope_lab.figures.style import DENSITY
from rope_lab.figures.widgets import (
    PermutationExplorer,
    RotationExplorer,
    TileExplorer,
    WhoLoadsWhat,
)

EXPLORERS = (RotationExplorer, PermutationExplorer, WhoLoadsWhat, TileExplorer, RooflineExplorer)


def another_value(slider):
    if hasattr(slider, "options"):
        return next(value for value in slider.options if value != slider.value)
    return slider.value + slider.step


def pixels(explorer):
    return np.array(Image.open(io.BytesIO(explorer.picture.value)))


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_changes_what_is_seen(make):
    """The words or the picture, and the picture of all but the warp that nobody sees twice."""
    for number in range(len(make().sliders)):
        explorer = make()
        slider = explorer.sliders[number]
        before = explorer.said.value, explorer.picture.value
        slider.value = another_value(slider)
        assert (explorer.said.value, explorer.picture.value) != before, slider.description
        assert explorer.picture.value != before[1], slider.description


@pytest.mark.parametrize("make", EXPLORERS)
def test_pictures_fit_on_light_and_dark(make):
    picture = pixels(make())
    assert picture.shape[2] == 4 and (picture[0, 0] == (250, 250, 250, 255)).all()  # the plate
    assert make().picture.layout.width == f"{picture.shape[1] // DENSITY}px"


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_page_without_widgets_shows_the_picture(make):
    """GitHub and the site leave the widget out; the picture is that of the widget's state."""
    explorer = make()
    slider = explorer.sliders[0]
    slider.value = another_value(slider)
    data, about = explorer._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]) == explorer.picture.value
    assert "application/vnd.jupyter.widget-view+json" in data
    assert about["image/png"]["alt"] == data["text/plain"] == repr(explorer)
    assert about["image/png"]["width"] == int(explorer.picture.layout.width.removesuffix("px"))
    assert "<" not in repr(explorer) and explorer.said.value.split()[0] in repr(explorer)


@pytest.mark.parametrize("make", EXPLORERS)
def test_asking_moves_nothing(make):
    """A cell that asks leaves the widget of the cell before as it was."""
    explorer, moved = make(), make()
    for slider in explorer.sliders:
        assert slider.description
    name = next(name for name, value in vars(explorer).items() if value is explorer.sliders[0])
    value = another_value(explorer.sliders[0])
    getattr(moved, name).value = value
    state = [explorer.said.value, explorer.picture.value, *(x.value for x in explorer.sliders)]
    assert explorer.says(**{name: value}) == moved.said.value != explorer.said.value
    assert state == [explorer.said.value, explorer.picture.value] + [
        slider.value for slider in explorer.sliders
    ]
    explorer.sliders[0].value = value  # and it still follows its sliders
    assert explorer.said.value == moved.said.value


def test_the_slider_ends_at_the_last_warp():
    explorer = TileExplorer()
    explorer.warp.value = 3
    assert "warp 0 of 1" in explorer.says(num_warps=1)
    assert explorer.warp.value == explorer.warp.max == 3
    explorer.num_warps.value = 2
    assert (explorer.warp.value, explorer.warp.max) == (1, 1)


def test_the_score_is_that_of_the_difference():
    explorer = RotationExplorer(m=4, n=1)
    said = explorer.score.value
    explorer.m.value, explorer.n.value = 11, 8
    assert explorer.score.value == said
    want = math.cos(math.radians(50 + 3 * 15))
    assert float(said.split("=")[-1]) == pytest.approx(want, abs=5e-4)


# the permutation


def test_halves_become_neighbors():
    """By reshaping, not by a formula for places."""
    for d2 in range(4, 18, 2):
        explorer = PermutationExplorer(d2=d2)
        after = torch.arange(d2).view(2, -1).t().flatten()  # at each place, the element
        assert torch.equal(torch.tensor(explorer.places()), after.argsort())


@pytest.mark.parametrize(
    "d2, times", ((4, 2), (6, 4), (8, 3), (10, 6), (12, 10), (14, 12), (16, 4))
)
def test_after_so_many_times_all_are_back(d2, times):
    """The order of 2 modulo d2 - 1: what dealers call a perfect shuffle."""
    explorer = PermutationExplorer(d2=d2)
    back = []
    for k in range(1, 13):
        explorer.times.value = k
        back.append(explorer.said.value.endswith(f"{d2} of {d2} elements are where they were"))
    assert back.index(True) + 1 == times
    assert pow(2, times, d2 - 1) == 1


def test_a_pair_that_is_not_there_is_the_last():
    explorer = PermutationExplorer(d2=8, pair=7)
    assert explorer.said.value.startswith("pair 3: elements 3 and 7 go to 6 and 7")


# who loads what


def numbers(explorer):
    """Bytes asked for, bytes sent, lanes masked off."""
    return [int(x) for x in re.findall(r"(?:for|sends|off:) (\d+)", explorer.said.value)]


def test_neighbors_are_sent_without_waste():
    assert numbers(WhoLoadsWhat()) == [512, 512, 0]


@pytest.mark.parametrize("stride, factor", ((1, 1), (2, 2), (3, 3), (4, 4), (8, 8)))
def test_memory_sends_whole_sectors(stride, factor):
    explorer = WhoLoadsWhat()
    explorer.stride.value = stride
    asked, sent, _ = numbers(explorer)
    assert asked == 512 and abs(sent - factor * asked) <= 32 * 4


def test_from_32_bytes_on_a_sector_serves_one_element_only():
    """8 elements of 4 bytes apart, and no wider stride would cost more."""
    explorer = WhoLoadsWhat(element_bytes=2)
    sent = []
    for stride in (4, 8):
        explorer.stride.value = stride
        sent.append(numbers(explorer)[1])
    assert sent == [128 * 8, 128 * 16]


def test_the_last_program_is_masked():
    explorer = WhoLoadsWhat(n=2000, block=512)
    explorer.program.value, explorer.warp.value = 3, 3
    asked, _, masked = numbers(explorer)
    assert asked == (2000 - 3 * 512 - 3 * 128) * 4 and masked == 32 - asked // 16


def test_every_element_of_a_block_belongs_to_one_lane():
    for block, warps, size in ((512, 4, 4), (1024, 4, 2), (128, 4, 4), (2048, 1, 8)):
        explorer = WhoLoadsWhat(5000, block, warps, size)
        for stride in (1, 2):
            explorer.stride.value = stride
            elements = explorer.elements()
            assert elements.shape[1:3] == (warps, 32)
            assert np.array_equal(np.sort(elements, axis=None), np.arange(block))


@pytest.mark.parametrize("block, num_warps, dtype", ((512, 4, "float32"), (1024, 4, "bfloat16")))
def test_the_compiler_deals_out_the_same(block, num_warps, dtype):
    """The picture's layout against that of a kernel compiled for an H200."""
    pytest.importorskip("triton")
    from rope_lab.compiler.compile import compile_for
    from rope_lab.compiler.stages import layout_of
    from wrong_kernels import copy_kernel

    x = torch.empty(4096, dtype=getattr(torch, dtype))
    code = compile_for("sm_90", copy_kernel, x, x, 4096, BLOCK=block, num_warps=num_warps)
    (piece,) = layout_of(code, "tl.load").size_per_thread
    explorer = WhoLoadsWhat(4096, block, num_warps, x.element_size())
    assert explorer.elements().shape[3] == piece


# a tile


def test_a_lane_holds_both_members_of_its_pairs_wherever_the_sliders_stand():
    explorer = TileExplorer()
    for warps in explorer.num_warps.options:
        explorer.num_warps.value = warps
        for holder in explorer.holders():
            assert np.array_equal(holder[:, 0], holder[:, 1])
        assert explorer.said.value.endswith(" 0 members without their partner")


def test_members_without_their_partner_are_counted(monkeypatch):
    """One block of whole rows: in fp32 with 4 warps no lane has a pair (notebook 04)."""
    explorer = TileExplorer()
    lane = np.arange(20 * 256).reshape(20, 2, 128) // 4
    monkeypatch.setattr(explorer, "holders", lambda: (lane // 512, lane // 32 % 4, lane % 32))
    explorer.lane.value = 1
    assert re.search(r": 0 pairs .*, \d+ members without their partner", explorer.said.value)
    assert not explorer.said.value.endswith(" 0 members without their partner")


@pytest.mark.parametrize("warps, rows", ((1, "0, 2, 4, 6"), (2, "0, 4"), (4, "0")))
def test_the_rows_of_a_lane(warps, rows):
    """16 lanes a row, two rows a warp: equation (8) of notebook 05."""
    explorer = TileExplorer()
    explorer.lane.value, explorer.num_warps.value = 5, warps
    pairs = 8 * (rows.count(",") + 1)
    assert f"warp 0 of {warps}, lane 5: {pairs} pairs (rows: {rows})," in explorer.said.value


def test_some_warps_of_the_last_tile_have_no_row():
    explorer = TileExplorer(rows=20, block_r=8)
    explorer.program.value = 2
    idle = []
    for warp in range(4):
        explorer.warp.value = warp
        idle.append("(rows: none)" in explorer.said.value)
    assert idle == [False, False, True, True]


def test_a_warp_that_is_not_there_is_the_last():
    explorer = TileExplorer()
    explorer.warp.value, explorer.num_warps.value = 3, 2
    assert ", warp 1 of 2, " in explorer.said.value


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("half, warps", ((128, 1), (128, 2), (128, 4), (64, 4), (512, 4)))
def test_the_compiler_deals_out_tiles_alike(half, warps, dtype):
    """Against notebook 05's tile kernel, compiled for an H200; both halves have one layout."""
    pytest.importorskip("triton")
    from rope_lab.compiler.compile import compile_for
    from rope_lab.compiler.stages import layout_of
    from rope_lab.steps.journey import half_split_tile_kernel

    t, freqs = torch.empty(2, 4, 8, 2 * half, dtype=getattr(torch, dtype)), torch.empty(2, 2 * half)
    sizes = {"HALF": half, "BLOCK_R": 8, "BLOCK_HALF": half, "num_warps": warps}
    code = compile_for("sm_90", half_split_tile_kernel, t, freqs, t, 32, **sizes)
    layout = layout_of(code, "x1 =")
    assert layout == layout_of(code, "x2 =")
    explorer = TileExplorer(32, half, 8, t.element_size())
    explorer.num_warps.value = warps
    row, pair = np.indices((8, half))
    _, warp, lane = (holder[:8, 0] for holder in explorer.holders())
    place = [row // layout.size_per_thread[0], pair // layout.size_per_thread[1]]
    for mine, size in ((lane, layout.threads_per_warp), (warp, layout.warps)):
        assert np.array_equal(mine, place[1] % size[1] + size[1] * (place[0] % size[0]))
        place = [place[0] // size[0], place[1] // size[1]]
    assert layout.order == (1, 0)
