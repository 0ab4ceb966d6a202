"""Beyond the rungs of notebook 09: kernels that are right, and counted; and its drawings."""

from types import SimpleNamespace

import pytest
import torch
from matplotlib.text import Text

import rope_lab as lab
from inputs import contiguous
from rope_kernels import RotaryPositionEmbedding, rope_qk
from rope_lab.compiler.instructions import warp_instructions
from rope_lab.figures import draw_ladder, style
from rope_lab.records import Measurement
from rope_lab.rungs import measured, rows
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
    if step.on_the_fly:
        assert torch.equal(got, step(t, beyond.turns_of(rope)))  # or made beforehand


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
    "shape, name", (((5, 1, 12, 32), "loads first"), ((5, 1, 8, 24), "fast sine"))
)
def test_what_needs_masks_is_refused(shape, name, device):
    t = contiguous(shape, torch.float32, device)
    gaps = contiguous((8, 2, 5, 32), torch.float32, device).transpose(0, 2)
    for refused in (t, gaps):
        with pytest.raises(ValueError, match="has no masks"):
            STEPS[name](refused, unlike_angles(device))


def test_a_diff_shows_what_goes_and_what_comes_and_no_markup_of_its_own():
    diff = Diff(STEPS["fast sine"].kernel, STEPS["on the fly"].kernel)
    assert "-    freqs_ptr,  # angles (s, D), contiguous" in diff.lines
    assert any("turned.to(tl.int32)" in line for line in diff.lines)
    assert "&gt;&gt; 32" in diff._repr_html_() and ">> 32" in repr(diff)
    assert repr(Diff(STEPS["fast sine"].kernel, STEPS["fast sine"].kernel)) == ""


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
    """Without its loop first: who follows that would never come to an end."""
    loop = "        /*0050*/               @P2 BRA `(.L_x_1) ;\n"
    assert loop in SASS
    assert warp_instructions(SimpleNamespace(sass=SASS.replace(loop, ""))) == 4
    straight = SASS.replace(loop, "").replace("@!P0 BRA `(.L_x_1)", "NOP")
    assert warp_instructions(SimpleNamespace(sass=straight)) == 6  # past an EXIT of some lanes
    assert warp_instructions(SimpleNamespace(sass=SASS)) == 5  # MOV, BRA, IADD3, BRA back, EXIT


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
    _, t, table, *_ = cases["4 rows"].args
    assert t.shape == (3, 5, 7, 24)  # the headline's would take half an hour without a GPU
    assert_all_but_the_copy_rotate(cases, t, rotate_fp64(t, table, "sbhd"))


def made_up(cases):
    timings = {name: Timing(us, us, us, 0.0, 1) for name, us in cases.items()}
    return Measurement(key="09/x", gpu="none", versions={}, date="2026-01-01", cases=timings)


CLIMB = {"copy": 60.0, "eager": 800.0, "rung 1": 180.0, "rung 2": 180.6, "rung 3": 80.0}
CLIMB["package"] = 61.0


def test_the_climb_says_each_time_and_what_each_rung_took(monkeypatch):
    shown = []
    monkeypatch.setattr(style, "display", lambda figure, **_: shown.append(figure))
    draw_ladder.climb(made_up(CLIMB))
    (figure,) = shown
    found = [text.get_text() for text in figure.findobj(Text)]
    rows = [" ".join(text.split()) for text in found]
    assert "180 -620 33.3 %" in rows  # of rung 1, and from eager
    assert "181 +0.6 33.2 %" in rows and "80.0 -101 75.0 %" in rows  # rungs 2 and 3
    assert found.count("cut off ") == 1
    assert "The last of 3 rungs has 75.0 %" in figure.get_suptitle()
    assert "10 times eager's" in figure.get_suptitle()
