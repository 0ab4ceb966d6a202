"""Beyond the rungs of notebook 09: kernels that are right, and counted; and its drawings."""

from dataclasses import replace
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import pytest
import torch

import rope_lab as lab
from inputs import contiguous
from rope_kernels import RotaryPositionEmbedding, rope_fw, rope_qk
from rope_lab.compiler.instructions import warp_instructions
from rope_lab.figures import draw_09, draw_ladder, style
from rope_lab.records import Measurement
from rope_lab.rungs import SHAPE as HEADLINE
from rope_lab.rungs import measured, rows, rung_7_loads_first
from rope_lab.steps import beyond
from rope_lab.steps.beyond import STEPS, Diff
from rope_lab.timing import Timing
from yardstick import assert_rounded_once, rotate_fp64

SHAPE = (5, 2, 8, 32)
PACKAGE = RotaryPositionEmbedding


def unlike_angles(device):
    """A table whose halves differ, with angles of many turns."""
    return 1000 * torch.randn(5, 1, 1, 32, device=device)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
@pytest.mark.parametrize("name", STEPS)
def test_each_step_rotates(name, dtype, device):
    step, rope = STEPS[name], PACKAGE(32).to(device)
    t = contiguous(SHAPE, dtype, device)
    freqs = rope if step.on_the_fly else unlike_angles(device)
    table = rope(5) if step.on_the_fly else freqs
    got, want = step(t, freqs), rotate_fp64(t, table, "sbhd")
    if "FAST" in step.kernel.arg_names:  # whole turns are taken away in fp32; the GPU's own sine
        half_unit = torch.finfo(dtype).eps / 2
        torch.testing.assert_close(got.double(), want, rtol=1.01 * half_unit, atol=1e-5)
    else:
        assert_rounded_once(got, want)


@pytest.mark.parametrize("name", ("on the fly", "streaming"))
def test_turns_may_be_made_beforehand(name, device):
    t, rope = contiguous(SHAPE, torch.float32, device), PACKAGE(32).to(device)
    assert torch.equal(STEPS[name](t, beyond.turns_of(rope)), STEPS[name](t, rope))


@pytest.mark.parametrize("name", ("on the fly", "streaming"))
def test_turns_are_right_far_out(name, device):
    """As the package's are, where fp32 angles are off by milliradians."""
    rope = PACKAGE(8).to(device)
    turns = beyond.turns_of(rope)
    exact = rope.inv_freq.double() / (2 * torch.pi)
    far = (turns * 1_000_003).double() * 2.0**-64  # its overflow takes whole turns away
    error = (far - exact * 1_000_003 + 0.5) % 1 - 0.5
    assert error.abs().max() < 1e-8


@pytest.mark.parametrize(
    "shape, name",
    (((5, 1, 12, 32), "loads first"), ((5, 1, 8, 24), "fast sine")),
)
def test_a_shape_that_needs_masks_is_refused(shape, name, device):
    with pytest.raises(ValueError, match="has no masks"):
        STEPS[name](contiguous(shape, torch.float32, device), unlike_angles(device))


def test_a_tensor_with_gaps_is_refused(device):
    t = contiguous((8, 2, 5, 32), torch.float32, device).transpose(0, 2)
    with pytest.raises(ValueError, match="has no masks"):
        STEPS["fast sine"](t, unlike_angles(device))


def test_each_step_is_a_small_change_of_the_last():
    for before, after in pairwise(STEPS.values()):
        changed = [line for line in Diff(before.kernel, after.kernel).lines if line[0] in "+-"]
        assert 0 < len(changed) <= 16, (before.name, after.name)


def test_a_diff_shows_what_goes_and_what_comes_and_no_markup_of_its_own():
    diff = Diff(STEPS["fast sine"].kernel, STEPS["on the fly"].kernel)
    assert "-    freqs_ptr,  # angles (s, D), contiguous" in diff.lines
    assert any("turned.to(tl.int32)" in line for line in diff.lines)
    assert "&gt;&gt; 32" in diff._repr_html_() and ">> 32" in repr(diff)
    assert repr(Diff(STEPS["fast sine"].kernel, STEPS["fast sine"].kernel)) == ""


def test_what_the_notebook_says_of_the_fast_sine():
    for block_r in (4, 8):
        exact, fast = (
            replace(STEPS[name], block_r=block_r).compiled(*HEADLINE)
            for name in ("loads first", "fast sine")
        )
        assert warp_instructions(fast) < 0.6 * warp_instructions(exact)
        assert fast.programs_at_a_time > exact.programs_at_a_time


def test_instructions_are_counted_past_the_slow_branches():
    exact = STEPS["loads first"].compiled(*HEADLINE)
    fast = STEPS["fast sine"].compiled(*HEADLINE)
    all_of = {code.kernel: code.sass.count(" ;") for code in (exact, fast)}
    assert warp_instructions(exact) < 0.7 * all_of[exact.kernel]
    assert warp_instructions(fast) > 0.9 * all_of[fast.kernel]


SASS = """
.L_start:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_1) ;
        /*0020*/                   MUFU.SIN R2, R3 ;
        /*0030*/              @P1  EXIT ;
.L_x_1:
        /*0040*/                   IADD3 R2, R2, 0x1, RZ ;
        /*0050*/               @P2 BRA `(.L_x_1) ;
        /*0060*/                   EXIT ;
.L_x_2:
        /*0070*/                   BRA `(.L_x_2) ;
"""


def test_a_walk_through_machine_code():
    class Code:
        sass = SASS

    assert warp_instructions(Code) == 5  # MOV, BRA taken, IADD3, BRA not taken, EXIT


@pytest.mark.parametrize(
    "options, elements",
    (
        ({}, 2 * 1024 * 2),
        ({"table": True}, 2 * 1024 * 2 + 4 * 4 * 32),
        ({"rotary_dim": 16, "table": True}, 2 * 1024 * 2 + 4 * 4 * 16),
        ({"rotary_dim": 16, "inplace": True}, 2 * 512 * 2),
        ({"inplace": True}, 2 * 1024 * 2),
    ),
)
def test_bytes_moved(options, elements):
    assert beyond.bytes_moved(4, 2, 4, 32, 2, **options) == elements


@pytest.mark.parametrize("inplace", (False, True))
def test_a_launch_does_what_the_call_does(inplace, device):
    t, rope = contiguous((3, 1, 11, 16), torch.float32, device), PACKAGE(16).to(device)
    q, k = t, t[:, :, :4] + 1
    want = rope_qk(q, k, rope)
    launch = beyond.launch_of(rope_qk, q, k, rope, inplace=inplace)
    before = q.clone()
    tensors = launch()
    assert (tensors.q_out is q) == inplace and torch.equal(q, before) != inplace
    assert lab.compare(tensors.q_out, want[0], (0.0, 0.0)).ok
    assert lab.compare(tensors.k_out, want[1], (0.0, 0.0)).ok


def test_a_launch_can_be_done_again(device):
    t, rope = contiguous((3, 1, 11, 16), torch.float32, device), PACKAGE(16).to(device)
    launch = beyond.launch_of(rope_fw, t, rope)
    launch().q_out.zero_()
    assert lab.compare(launch().q_out, rope_fw(t, rope), (0.0, 0.0)).ok


def assert_all_but_the_copy_rotate(cases, t, want):
    assert torch.equal(cases.pop("copy")(), t)
    for case in cases.values():
        torch.testing.assert_close(case().double(), want, rtol=2e-2, atol=2e-2)


def test_all_measured_cases_but_the_copy_rotate_the_same_tensor(device):
    cases = beyond.measured_cases(STEPS, SHAPE, device)
    assert list(cases) == ["copy", *STEPS]
    t = cases["fast sine"].args[0]
    want = rotate_fp64(t, PACKAGE(32).to(device)(5), "sbhd")
    assert_all_but_the_copy_rotate(cases, t, want)


def test_each_number_of_rows_rotates(device, monkeypatch):
    monkeypatch.setattr(measured, "SHAPE", (3, 5, 7, 24))  # 35 rows a position
    cases = rows.make_cases(device)
    assert list(cases) == ["copy", "2 rows", "4 rows", "8 rows", "16 rows", "32 rows"]
    t, table, *_ = cases["4 rows"].args
    assert t.shape == (3, 5, 7, 24)  # the headline's would take half an hour without a GPU
    assert_all_but_the_copy_rotate(cases, t, rotate_fp64(t, table, "sbhd"))


def test_rows_are_given_a_result_of_their_own(device):
    t, freqs = contiguous((3, 2, 4, 16), torch.float32, device), PACKAGE(16).to(device)(3)
    got = rows.rope_with_rows(t, freqs, 4)
    assert_rounded_once(got, rotate_fp64(t, freqs, "sbhd"))


def test_what_the_notebook_says_of_rows():
    triton = pytest.importorskip("triton", reason="needs Triton")
    if not triton.__version__.startswith(("3.6.", "3.7.")):
        pytest.skip("the notebook has the figures of Triton 3.6 and 3.7")
    code = {block_r: rows.compiled(rung_7_loads_first, block_r) for block_r in rows.ROWS}
    assert [code[r].programs_at_a_time for r in rows.ROWS] == [32, 28, 16, 8, 8]
    assert [r for r in rows.ROWS if code[r].spilled] == [32]
    assert code[4].registers == 72 and code[8].registers == 128


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setattr(plt, "show", lambda: figures.append(plt.gcf()))
    yield figures
    plt.close("all")


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def made_up(cases):
    timings = {name: Timing(us, us, us, 0.0, 1) for name, us in cases.items()}
    return Measurement(key="09/x", gpu="none", versions={}, date="2026-01-01", cases=timings)


CLIMB = {"copy": 60.0, "eager": 800.0, "rung 1": 180.0, "rung 2": 180.6, "rung 3": 80.0}
CLIMB["package"] = 61.0


def test_the_climb_says_each_time_and_what_each_rung_took(shown):
    draw_ladder.climb(made_up(CLIMB))
    found = texts(shown[0])
    assert found.count("180") == 1 and "-620" in found  # of rung 1, and from eager
    assert "+0.6" in found and "-101" in found  # rungs 2 and 3
    assert "75.0 %" in found and found.count("cut off ") == 1
    assert "The last of 3 rungs has 75.0 %" in shown[0].get_suptitle()
    assert "10 times eager's" in shown[0].get_suptitle()


def test_the_climb_marks_the_package_alone_without_a_change(shown):
    draw_ladder.climb(made_up(CLIMB), "a title")
    found = texts(shown[0])
    assert "-19.0" not in found and shown[0].get_suptitle() == "a title"
    labels = [label.get_text() for label in shown[0].axes[0].get_yticklabels()]
    assert labels[-1] == "the package" and labels[3].startswith("3")


def test_no_number_of_the_climb_touches_a_bar(shown):
    draw_ladder.climb(made_up(CLIMB))
    ax = shown[0].axes[0]
    shown[0].canvas.draw()
    bars = [bar.get_window_extent() for bar in ax.patches]
    for text in ax.texts:
        if text.get_text() != "cut off ":
            assert not any(text.get_window_extent().overlaps(bar) for bar in bars), text


def test_rows_have_their_times_and_their_limits(shown):
    limits = {"bytes": {2: 65.0, 4: 65.0}, "program starts": {2: 86.0, 4: 45.0}}
    draw_09.rows({2: 93.8, 4: 68.5}, limits, 67.5, "a title", "source")
    assert texts(shown[0]) == ["93.8", "68.5"]
    names = [text.get_text() for text in shown[0].legends[0].get_texts()]
    assert names == ["bytes", "program starts", "measured", "a copy, measured"]
    assert "2 rows 93.8" in style.description(shown[0])


def test_host_times_that_are_close_keep_their_names_apart(shown):
    draw_09.host_and_device({"a": 10.0, "b": 40.0, "c": 42.0}, 3.7, 4.4e6, [2**16, 2**26], "x")
    figure = shown[0]
    figure.canvas.draw()
    names = [text for text in figure.axes[0].texts if text.get_text().startswith("host")]
    boxes = [name.get_window_extent() for name in names]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_each_host_time_has_its_name_nearest_to_it(shown):
    host = {"a": 10.0, "b": 3.0}
    draw_09.host_and_device(host, 3.7, 4.4e6, [2**e for e in range(16, 28)], "x")
    ax = shown[0].axes[0]
    renderer = shown[0].canvas.get_renderer()
    height = {name: ax.transData.transform((2**16, us))[1] for name, us in host.items()}
    for text in ax.texts:
        if text.get_text().startswith("host: "):
            box = text.get_window_extent(renderer)
            apart = {name: abs((box.y0 + box.y1) / 2 - y) for name, y in height.items()}
            assert min(apart, key=apart.get) == text.get_text().removeprefix("host: ")
