"""How exact results are where positions are large: around 10 000 000, and up to 2^40 either way.

The yardstick multiplies position and frequency in fp64 where that is exact (a frequency has 24
bits, which leaves 29 for the position) and in Python's integers where it is not.
"""

import math
from fractions import Fraction

import pytest
import torch

from inputs import contiguous
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, reference, rope_bw, rope_fw
from rope_kernels.embedding import radians
from yardstick import gradient_fp64, rotate_fp64

# Bars for ||got - fp64|| / ||fp64||. Rounding to nearest alone costs 0.213 eps: 1.66e-3 in bf16,
# 2.08e-4 in fp16, 2.5e-8 in fp32. So to 16 bits there is room for that one rounding and no more.
BARS = {torch.bfloat16: 1.7e-3, torch.float16: 2.2e-4, torch.float32: 2e-7, torch.float64: 1e-15}

UNIT = 2 * math.pi * 2.0**-64  # radians in 2^-64 turns, in which frequencies are counted


def bar_of(t, position=0):
    """On the fly an angle is wrong by 2 units a position at most, which shows in fp64 alone."""
    return BARS[t.dtype] + 2 * UNIT * abs(position)


def relative_error(got, want_fp64):
    return ((got.double() - want_fp64).norm() / want_fp64.norm()).item()


def sample(dtype, d, device):
    """(t, grad) of enough elements that their errors average out: (s, b, h, d)."""
    shape = (512, 2, 24, d) if device == "cuda" else (3, 2, 12, d)
    return contiguous(shape, dtype, device), contiguous(shape, dtype, device)


def errors(t, grad, freqs, true_freqs, where=None, truly_where=None):
    """Of the forward and of the backward, against angles that may be told another way."""
    where, truly_where = where or {}, truly_where or where or {}
    yield relative_error(
        rope_fw(t, freqs, **where), rotate_fp64(t, true_freqs, "sbhd", **truly_where)
    )
    want = gradient_fp64(t, true_freqs, "sbhd", grad, **truly_where)
    yield relative_error(rope_bw(grad, freqs, **where), want)


# on the fly


@cover(
    where=("start_positions", "position_ids"),
    d=(64, 128),
    dtype=tuple(BARS),
    position=(0, 131_071, 1_000_000, 10_000_000),
)
def test_on_the_fly(where, d, dtype, position, device):
    t, grad = sample(dtype, d, device)
    if where == "start_positions":
        value = torch.tensor([position, position + 977], device=device)
    else:
        value = torch.randint(position, position + 1000, (2, len(t)), device=device)
    module = RotaryPositionEmbedding(d).to(device)
    for error in errors(t, grad, module, module, {where: value}):
        assert error <= bar_of(t, position + 1500)


NEGATIVE_AND_HUGE = [-1, -5, -131_071, -10_000_000, 2**31 - 1, 2**31, -(2**31) - 1, 2**33 + 7]
HUGE = [2**40, 2**40 + 123_457, -(2**40), -(2**40) - 99_991, 10**12 + 39]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("engine", ("kernel", "reference"))
def test_negative_and_huge_positions_on_the_fly(engine, dtype, device):
    """Position by position, against angles by exact arithmetic."""
    ids = NEGATIVE_AND_HUGE + (HUGE if engine == "kernel" else [])
    t, grad = (contiguous((len(ids), 1, 16, 64), dtype, device) for _ in "tg")
    module = RotaryPositionEmbedding(64).to(device)
    frequencies = [Fraction(frequency) for frequency in module.inv_freq.tolist()]
    angles = [[exact_angle(position * frequency) for frequency in frequencies] for position in ids]
    angles = torch.tensor(angles, dtype=torch.float64, device=device).repeat(1, 2)
    where = {"position_ids": torch.tensor([ids], device=device)}
    if engine == "kernel":
        out, grad_t = rope_fw(t, module, **where), rope_bw(grad, module, **where)
    else:
        out, grad_t = (
            reference.apply_rotary_pos_emb(
                x, module.inv_freq, round_once=True, transpose=x is grad, **where
            )
            for x in (t, grad)
        )
    want = rotate_fp64(t, angles[:, None, None], "sbhd")
    want_grad = gradient_fp64(t, angles[:, None, None], "sbhd", grad)
    for row, position in enumerate(ids):
        bar = bar_of(t, position)
        if engine == "reference":  # a product in fp64
            bar += 2**-52 * abs(position)
        assert relative_error(out[row], want[row]) <= bar
        assert relative_error(grad_t[row], want_grad[row]) <= bar


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize(
    "position, fp32, fp64",
    ((131_071, 1.5e-7, 1e-11), (2**29 - 1, 2e-7, 6e-8), (2**31 - 1, 6e-7, 3e-7)),
)
def test_angles_of_plain_pytorch(position, fp32, fp64, dtype):
    """The errors that the docstring of `radians` names."""
    inv_freq = (10000.0 ** -(torch.arange(64, dtype=torch.float64) / 64)).to(dtype)
    want = [exact_angle(position * Fraction(x)) for x in inv_freq.tolist()]
    want = torch.tensor(want, dtype=torch.float64)
    for computed, bar in ((torch.float32, fp32), (torch.float64, fp64)):
        angle = radians(inv_freq, torch.tensor([position]), computed)
        assert (angle.cos().double() - want.cos()).abs().max() <= bar
        assert (angle.sin().double() - want.sin()).abs().max() <= bar


# the frequencies themselves

NUMBERS = [0.0, -0.0, 1e-45, 1e-40, 1e-30, 1e-12, 1e-4, 0.3, 1.0, 1.9999, 3.1, 4.0, 15.7, 1e3, 7e6]
POSITIONS = [0, 1, 10**6, 2**31, 2**33 + 5, 10**12, -7, -(10**9)]
TOO_LARGE = 2.0**23, -(2.0**23), 3e38, math.inf, -math.inf, math.nan


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_each_frequency_against_integers(dtype, device, needs_triton):
    """At most 3 units of 2^-64 turns per position, and as many for each radian above 1."""
    inv_freq = torch.tensor([*NUMBERS, *[-x for x in NUMBERS]], dtype=dtype)
    module = RotaryPositionEmbedding(2 * len(inv_freq), inv_freq=inv_freq).to(device)
    ones = torch.zeros(1, len(POSITIONS), 1, 2 * len(inv_freq), dtype=torch.float64, device=device)
    ones[..., : len(inv_freq)] = 1
    ids = torch.tensor([POSITIONS], device=device)
    found = rope_fw(ones, module, "bshd", position_ids=ids)[0, :, 0].cpu()
    for position, cos, sin in zip(POSITIONS, *found.chunk(2, -1), strict=True):
        angles = [exact_angle(position * Fraction(x)) for x in inv_freq.tolist()]
        angles = torch.tensor(angles, dtype=torch.float64)
        bar = 1e-15 + 3 * 2 * math.pi * 2.0**-64 * abs(position) * inv_freq.abs().clamp(1).double()
        assert ((cos - angles.cos()).abs() <= bar).all(), position
        assert ((sin - angles.sin()).abs() <= bar).all(), position


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_a_frequency_that_is_too_large_gives_nan(number, dtype, device, needs_triton):
    """And no other pair does."""
    t, module = torch.ones(3, 1, 2, 8, device=device), RotaryPositionEmbedding(8).to(device)
    module.inv_freq = module.inv_freq.to(dtype)
    want = rope_fw(t, module)
    module.inv_freq[1] = number
    got = rope_fw(t, module)
    others = [0, 2, 3, 4, 6, 7]
    assert got[..., [1, 5]].isnan().all() and torch.equal(got[..., others], want[..., others])


def exact_angle(angle):
    """A rational angle but for its whole turns, from -pi to pi, rounded once to fp64."""
    turns = angle / (2 * PI)
    return float((turns - round(turns)) * 2 * PI)


def arctan_of_1_over(n, bits=256):
    """1/n - 1/3n^3 + 1/5n^5 - ..., to about 2^-bits."""
    power, total, odd = (1 << bits) // n, 0, 1
    while power:
        total += power // odd if odd % 4 == 1 else -(power // odd)
        power, odd = power // n**2, odd + 2
    return Fraction(total, 1 << bits)


PI = 16 * arctan_of_1_over(5) - 4 * arctan_of_1_over(239)  # Machin's formula
