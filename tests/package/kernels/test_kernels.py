"""What a kernel does with tables, sequences and sizes that the table of `ops.py` does not have."""

import pytest
import torch

from inputs import angles
from launches import in_order
from norm_yardstick import assert_as_in_new_memory
from ops import OPS, every_second
from rope_kernels import rope_bw, rope_fw
from rope_lab.compiler.launches import launched_by
from yardstick import assert_near, gradient_fp64, rotate_fp64

BOTH_DIRECTIONS = [op for op in OPS if op.name in ("rope_fw", "rope_bw")]


def check_both_directions(device, **case):
    """In new memory, and in place between other elements."""
    for op in BOTH_DIRECTIONS:
        sample = op.sample(device, **case)
        (out,), (x,) = sample.check(), sample.given.values()
        wide = torch.cat((x, x, x), dim=-1)
        before, place, after = wide.chunk(3, dim=-1)
        sample.call({op.tensors[0]: place}, inplace=True)
        assert torch.equal(place, out) and torch.equal(before, x) and torch.equal(after, x)


@pytest.mark.parametrize(
    ("tensor_format", "s", "h", "d"),
    (
        ("sbhd", 2, 41, 64),
        ("thd", 2, 17, 64),
        ("bhsd", 131, 1, 32),
        ("sbhd", 3, 3, 2),
        ("thd", 3, 3, 13),
        ("sbhd", 1, 32, 2050),
        # padding that is a third of a row, and a quarter
        ("thd", 3, 17, 80),
        ("bhsd", 11, 3, 96),
        # whole rows side by side: of a position, and of a head
        ("sbhd", 3, 5, 30),
        ("thd", 3, 5, 100),
        ("bhsd", 11, 3, 100),
        ("sbhd", 3, 17, 72),
        ("thd", 20, 3, 30),
    ),
)
@pytest.mark.parametrize("freqs", ("angles", "on the fly"))
def test_sizes_that_no_block_divides(freqs, tensor_format, s, h, d, device):
    """On the fly, whole rows side by side share what is computed of a pair."""
    case = {"s": s, "heads": (h,), "d": d, "rotary": {13: 8, 2050: 64}.get(d, 1.0)}
    check_both_directions(device, tensor_format=tensor_format, freqs=freqs, **case)


def test_wide_rows_turn_in_their_middle_and_are_packed(device):
    """What is read is every second element of memory, what is written all of new memory."""
    for op in BOTH_DIRECTIONS:
        sample = op.sample(device, d=30, rotary=20, start="at 5")
        sample.given = {name: every_second(x) for name, x in sample.given.items()}
        sample.check()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs all programs")
def test_the_last_programs_take_the_last_positions_of_every_entry(whole_way):
    """Of 1030 positions they take 1024 of an entry, those of the next one, and then the rest."""
    t, freqs = torch.randn(2, 1030, 8, 64), angles(1030, 64, "cpu")
    with launched_by(in_order(lambda programs: programs[-12:])):
        out = rope_fw(t, freqs, "bshd")
    assert_near(out[:, -6:], rotate_fp64(t, freqs, "bshd")[:, -6:])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("largest", (3.0, 300.0, 1e5, 1e6, 1e8))
def test_the_hardwares_sine_is_lost_in_a_16_bit_rounding(largest, dtype):
    """Ones and zeros turn into cosines and sines."""
    freqs = (2 * torch.rand(4096, 1, 1, 128, device="cuda") - 1) * largest
    freqs[..., 64:] = freqs[..., :64]
    t = torch.zeros(4096, 1, 1, 128, device="cuda", dtype=dtype)
    t[..., :64] = 1
    out = rope_fw(t, freqs).double()
    angle = freqs[..., :64].double()
    want = torch.cat([angle.cos(), angle.sin()], -1)
    half_a_step = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype] * want.abs()
    error = (out - want).abs() - half_a_step.clamp_min(2.0**-25)
    assert error.max() <= (1e-6 if largest <= 1e6 else 1e-5)


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
def test_an_angle_that_is_no_number_turns_into_none(dtype, device):
    freqs = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0], device=device)
    freqs = freqs[:, None, None, None].expand(4, 1, 1, 8).contiguous()
    out = rope_fw(torch.ones(4, 1, 1, 8, device=device, dtype=dtype), freqs)
    assert out[:3].isnan().all() and torch.equal(out[3], torch.ones_like(out[3]))


@pytest.mark.usefixtures("memory_is_given_back")
@pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))
def test_offsets_along_the_head_dimension_need_64_bits(interleaved, device):
    """Neighbors in d lie 2^29 elements apart: 7 of those steps pass 2^31."""
    step = 2**29
    memory = torch.empty(7 * step + 4, dtype=torch.float16, device=device)
    t = memory.as_strided((2, 1, 2, 8), (1, 1, 2, step))
    t.copy_(torch.randn(2, 1, 2, 8))
    freqs, options = angles(2, 8, device), {"interleaved": interleaved}
    assert_near(rope_fw(t, freqs, **options), rotate_fp64(t, freqs, "sbhd", **options))
    want = gradient_fp64(t, freqs, "sbhd", t, **options)
    assert_near(rope_bw(t, freqs, **options), want)
    assert_near(rope_bw(t, freqs, **options, inplace=True), want)


@pytest.mark.usefixtures("memory_is_given_back")
@pytest.mark.parametrize("inplace", (True, False))
def test_a_slice_that_starts_past_2_to_31_elements(inplace, device):
    """d is the outermost dimension in memory. Only the pages that are touched take memory."""
    step = 2**26
    memory = torch.empty(66 * step, dtype=torch.float16, device=device)
    t = memory.as_strided((1, 1, 1, 66), (2**32, 2**32, 2**32, step))
    t.copy_(torch.randn(1, 1, 1, 66))
    freqs, options = angles(1, 2, device), {"rotary_start": 64, "inplace": inplace}
    want = rope_fw(t.contiguous(), freqs, **options)
    assert_as_in_new_memory(rope_fw(t, freqs, **options), want)
