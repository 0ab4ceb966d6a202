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

from rope_lab.figures import audit
from rope_lab.figures.roofline import RooflineExplorer
from rope_lab.figures.widgets import (
    Explorer,
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


@pytest.fixture(autouse=True)
def undrawn(request, monkeypatch):
    """Only tests of pictures draw them: each takes a quarter of a second."""
    if "make" not in request.fixturenames:
        monkeypatch.setattr(Explorer, "_update", lambda self, _=None: None)


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_changes_a_picture_that_can_be_read(make, monkeypatch):
    """On light and dark pages, where nobody sees a warp that looks like the one before."""
    monkeypatch.setenv(audit.AUDIT_SWITCH, "1")
    explorer = make()
    for slider in explorer.sliders.values():
        before = explorer.picture
        slider.value = another_value(slider)
        assert explorer.picture != before and slider.description, slider
        assert explorer.picture in explorer.shown.value
    picture = np.array(Image.open(io.BytesIO(base64.b64decode(explorer.picture))))
    assert picture.shape[2] == 4 and (picture[0, 0] == (250, 250, 250, 255)).all()  # the plate
    assert f'width="{picture.shape[1] // 2}"' in explorer.shown.value  # two pixels for each


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_page_without_widgets_shows_the_picture_and_asking_moves_nothing(make):
    """GitHub and the site leave the widget out. A cell that asks leaves the widget as it was."""
    explorer = make()
    name, first = next(iter(explorer.sliders.items()))
    assert getattr(explorer, name) is first
    value, before = another_value(first), (explorer.said.value, explorer.values())
    answer = explorer.says(**{name: value})
    assert before == (explorer.said.value, explorer.values())
    first.value = value  # and it still follows its sliders
    assert explorer.said.value == answer != before[0]
    data, about = explorer._repr_mimebundle_()
    assert data["image/png"] == explorer.picture
    assert "application/vnd.jupyter.widget-view+json" in data
    assert about["image/png"]["alt"] == data["text/plain"] == repr(explorer)
    assert "<" not in repr(explorer) and answer.split()[0] in repr(explorer)


def test_the_score_is_that_of_the_difference():
    explorer = RotationExplorer(m=4, n=1)
    assert explorer.says(m=11, n=8).split("=")[1:] == explorer.says().split("=")[1:]
    want = math.cos(math.radians(50 + 3 * 15))
    assert float(explorer.says().split("=")[-1]) == pytest.approx(want, abs=5e-4)


@pytest.mark.parametrize("d2, times", ((4, 2), (6, 4), (10, 6), (14, 12), (16, 4)))
def test_halves_become_neighbors_and_after_so_many_times_all_are_back(d2, times):
    """The order of 2 modulo d2 - 1: what dealers call a perfect shuffle."""
    explorer = PermutationExplorer(d2=d2)
    after = torch.arange(d2).view(2, -1).t().flatten()  # at each place, the element
    assert torch.equal(torch.tensor(explorer.places(d2, 1)), after.argsort())
    end = f"{d2} of {d2} elements are where they were"
    back = [explorer.says(times=k).endswith(end) for k in range(1, 13)]
    assert back.index(True) + 1 == times and pow(2, times, d2 - 1) == 1


def test_what_is_not_there_is_the_last():
    said = PermutationExplorer(d2=8, pair=7).says()
    assert said.startswith("pair 3: elements 3 and 7 go to 6 and 7")
    explorer = TileExplorer()
    explorer.warp.value = 3
    assert "warp 0 of 1" in explorer.says(num_warps=1)
    assert explorer.warp.value == explorer.warp.max == 3
    explorer.num_warps.value = 2
    assert (explorer.warp.value, explorer.warp.max) == (1, 1)
    assert ", warp 1 of 2, " in explorer.says()


@pytest.mark.parametrize(
    "size, stride, asked, sent",
    (
        (4, 1, 512, 512),
        (4, 2, 512, 1024),
        (4, 3, 512, 1536),
        (4, 8, 512, 4096),
        (2, 4, 256, 128 * 8),
        (2, 8, 256, 128 * 16),  # a sector serves one element, and a wider stride costs no more
    ),
)
def test_memory_sends_whole_sectors(size, stride, asked, sent):
    said = WhoLoadsWhat(element_bytes=size).says(stride=stride)
    assert f"asks for {asked} bytes, memory sends {sent}; lanes masked off: 0" in said


def test_the_last_program_is_masked():
    said = WhoLoadsWhat(n=2000, block=512).says(program=3, warp=3)
    asked = (2000 - 3 * 512 - 3 * 128) * 4
    assert f"asks for {asked} bytes" in said
    assert said.endswith(f"masked off: {32 - asked // 16} of 32")


def test_every_lane_of_a_block_gets_as_many_elements():
    for block, warps, size in ((512, 4, 4), (1024, 4, 2), (128, 4, 4), (2048, 1, 8)):
        explorer = WhoLoadsWhat(2 * block, block, warps, size)
        for stride in (1, 2):
            program, warp, lane = explorer.holders(stride)
            held = np.bincount((program * warps + warp) * 32 + lane)
            assert held.tolist() == [block // warps // 32] * (2 * warps * 32)
            assert stride == 1 or lane[1] == 1  # no neighbors


@pytest.mark.parametrize("warps, rows", ((1, "0, 2, 4, 6"), (2, "0, 4"), (4, "0")))
def test_a_lane_holds_whole_pairs(warps, rows):
    """16 lanes a row, two rows a warp: equation (6) of notebook 05."""
    explorer = TileExplorer()
    explorer.num_warps.value = warps
    pairs = 8 * (rows.count(",") + 1)
    said = explorer.says(lane=5)
    assert f"warp 0 of {warps}, lane 5: {pairs} pairs (rows: {rows}), 0 members" in said
    assert all(np.array_equal(holder[:, 0], holder[:, 1]) for holder in explorer.holders())


def test_members_without_their_partner_are_counted(monkeypatch):
    """One block of whole rows: in fp32 with 4 warps no lane has a pair (notebook 04)."""
    explorer = TileExplorer()
    lane = np.arange(20 * 256).reshape(20, 2, 128) // 4
    monkeypatch.setattr(explorer, "holders", lambda _: (lane // 512, lane // 32 % 4, lane % 32))
    assert re.search(r": 0 pairs .*, [1-9]\d* members without", explorer.says(lane=1))


def test_some_warps_of_the_last_tile_have_no_row():
    explorer = TileExplorer(rows=20, block_r=8)
    said = [explorer.says(program=2, warp=warp) for warp in range(4)]
    assert ["(rows: none)" in words for words in said] == [False, False, True, True]


# the compiler deals out the same, for an H200


@pytest.mark.parametrize("block, num_warps, dtype", ((512, 4, "float32"), (1024, 4, "bfloat16")))
def test_a_lane_loads_as_many_neighbors(block, num_warps, dtype):
    pytest.importorskip("triton")
    from rope_lab.compiler.compile import compile_for
    from rope_lab.compiler.stages import layout_of
    from wrong_kernels import copy_kernel

    x = torch.empty(4096, dtype=getattr(torch, dtype))
    code = compile_for("sm_90", copy_kernel, x, x, 4096, BLOCK=block, num_warps=num_warps)
    (piece,) = layout_of(code, "tl.load").size_per_thread
    _, _, lane = WhoLoadsWhat(4096, block, num_warps, x.element_size()).holders(1)
    assert np.flatnonzero(lane)[0] == piece  # those of lane 0 come first


@pytest.mark.parametrize(
    "half, warps, dtype",
    ((128, 1, "bfloat16"), (128, 4, "float32"), (64, 4, "float32"), (512, 4, "bfloat16")),
)
def test_a_tile_is_dealt_out_alike(half, warps, dtype):
    """Against notebook 05's tile kernel; both halves have one layout."""
    pytest.importorskip("triton")
    from rope_lab.compiler.compile import compile_for
    from rope_lab.compiler.stages import layout_of
    from rope_lab.steps.journey import half_split_tile_kernel

    t, freqs = torch.empty(2, 4, 8, 2 * half, dtype=getattr(torch, dtype)), torch.empty(2, 2 * half)
    sizes = {"HALF": half, "BLOCK_R": 8, "BLOCK_HALF": half, "num_warps": warps}
    code = compile_for("sm_90", half_split_tile_kernel, t, freqs, t, 32, **sizes)
    layout = layout_of(code, "x1 =")
    assert layout == layout_of(code, "x2 =") and layout.order == (1, 0)
    explorer = TileExplorer(32, half, 8, t.element_size())
    explorer.num_warps.value = warps
    row, pair = np.indices((8, half))
    _, warp, lane = (holder[:8, 0] for holder in explorer.holders())
    place = [row // layout.size_per_thread[0], pair // layout.size_per_thread[1]]
    for mine, size in ((lane, layout.threads_per_warp), (warp, layout.warps)):
        assert np.array_equal(mine, place[1] % size[1] + size[1] * (place[0] % size[0]))
        place = [place[0] // size[0], place[1] // size[1]]
