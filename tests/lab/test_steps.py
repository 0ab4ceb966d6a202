"""Kernels that notebooks only time: without a GPU the times are replayed, and no cell runs them."""

import pytest
import torch

import rope_lab as lab
from inputs import angles, contiguous
from rope_kernels import RotaryPositionEmbedding, reference, rotate_half
from rope_lab.rungs import rung_2_tile
from yardstick import assert_near, rotate_fp64

pytest.importorskip("triton", reason="needs Triton")

from rope_lab.n05.kernels import without_sines_kernel
from rope_lab.n06.tunings import TILES
from rope_lab.n08.kernels import Setting
from rope_lab.profiling.probes import multiply_adds
from rope_lab.rungs.any_tile import launch
from rope_lab.rungs.naive_rope import naive_rope
from rope_lab.rungs.pairs_of_a_row import rope_by_pairs

SHAPE = (5, 2, 3, 24)


@pytest.mark.parametrize("block_r", (1, 4, 8))
def test_a_rung_with_another_tile(block_r, device):
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    got = launch(rung_2_tile.my_rope_kernel, t, freqs, block_r=block_r, num_warps=1)
    assert_near(got, rotate_fp64(t, freqs, "sbhd"))


def test_autotune_may_choose_the_best_tiles_of_the_sweep():
    """What is not in the list can't win: 16 rows with one warp were left out."""
    sweep = lab.recorded("05/tile-sweep")
    times = {name: timing.median_us for name, timing in sweep.cases.items() if name != "copy"}
    offered = {f"{t.kwargs['BLOCK_R']} rows, {t.num_warps} warps" for t in TILES.values()}
    assert offered >= {name for name, us in times.items() if us < 1.1 * min(times.values())}


@pytest.mark.parametrize("rope", (rope_by_pairs, naive_rope))
def test_a_kernel_that_is_no_rung(rope, device):
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    assert_near(rope(t, freqs), rotate_fp64(t, freqs, "sbhd"))


def test_the_kernel_of_pairs_with_a_part_left_out(device):
    """It leaves out cos and sin, and nothing else."""
    t, freqs = contiguous(SHAPE, torch.float32, device), angles(5, 24, device)
    want = t * freqs + rotate_half(t) * freqs
    assert lab.compare(launch(without_sines_kernel, t, freqs), want)


@pytest.mark.parametrize("changed", [{}, {"repeats": 3}, {"programs": 3}, {"rows": 1}])
def test_no_knob_changes_the_rotation(changed, device):
    setting = Setting(**{"shape": (6, 2, 4, 16), "rows": 4, "dtype": torch.float32} | changed)
    torch.manual_seed(0)
    got = setting.call(device)()
    torch.manual_seed(0)
    t = torch.randn(setting.shape, device=device)
    wanted = reference.apply_rotary_pos_emb(t, RotaryPositionEmbedding(16).to(device)(6))
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_multiply_adds_are_as_many_as_asked_for(device):
    ones = torch.ones(64, device=device)
    out = torch.empty_like(ones)
    for count in (0, 8, 16):
        multiply_adds(ones, out, count, block=32)()
        want = 0.999**count + 0.001 * sum(0.999**i for i in range(count))
        torch.testing.assert_close(out, want * ones)
