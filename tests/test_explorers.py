"""The widgets by value: what they say is counted here in another way, and a move is quick."""

import io
import math
import re
import time

import pytest

pytest.importorskip("ipywidgets")
pytest.importorskip("matplotlib")

import numpy as np
import torch
from PIL import Image

from rope_kernels.lab.explorer import PermutationExplorer, RotationExplorer, WhoLoadsWhat

EXPLORERS = (RotationExplorer, PermutationExplorer, WhoLoadsWhat)


def sliders_of(explorer):
    return explorer.children[0].children


def pixels(explorer):
    return np.array(Image.open(io.BytesIO(explorer.picture.value)))


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_changes_what_is_seen(make):
    """The words or the picture, and the picture of all but the warp that nobody sees twice."""
    for number in range(len(sliders_of(make()))):
        explorer = make()
        slider = sliders_of(explorer)[number]
        before = explorer.said.value, explorer.picture.value
        slider.value = slider.value + slider.step
        assert (explorer.said.value, explorer.picture.value) != before, slider.description
        assert explorer.picture.value != before[1], slider.description


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_move_answers_within_a_tenth_of_a_second(make):
    explorer, times = make(), []
    slider = sliders_of(explorer)[0]
    for value in (slider.min, slider.max) * 4:
        begin = time.thread_time()  # other processes may have the CPU meanwhile
        slider.value = value
        times.append(time.thread_time() - begin)
    assert min(t for t in times if t > 1e-3) < 0.1


@pytest.mark.parametrize("make", EXPLORERS)
def test_pictures_fit_on_light_and_dark(make):
    picture = pixels(make())
    assert picture.shape[2] == 4 and picture[0, 0, 3] == 0  # transparent
    assert make().picture.layout.width == f"{picture.shape[1]}px"


def test_the_score_is_that_of_the_difference():
    explorer = RotationExplorer(m=4, n=1)
    said = explorer.score.value
    explorer.m.value, explorer.n.value = 11, 8
    assert explorer.score.value == said
    want = math.cos(math.radians(50 + 3 * 15))
    assert float(said.split("=")[-1]) == pytest.approx(want, abs=5e-4)


# the permutation


def test_halves_become_neighbours():
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


def test_neighbours_are_sent_without_waste():
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
    from rope_kernels.lab.compile import compile_for
    from rope_kernels.lab.show_compiled import layout_of
    from wrong_kernels import copy_kernel

    x = torch.empty(4096, dtype=getattr(torch, dtype))
    code = compile_for("sm_90", copy_kernel, x, x, 4096, BLOCK=block, num_warps=num_warps)
    (piece,) = layout_of(code, "tl.load").size_per_thread
    explorer = WhoLoadsWhat(4096, block, num_warps, x.element_size())
    assert explorer.elements().shape[3] == piece
