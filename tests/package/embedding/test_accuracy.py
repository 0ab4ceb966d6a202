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
from rope_kernels.embedding import in_turns
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
NEGATIVE_AND_HUGE += [2**40, 2**40 + 123_457, -(2**40), -(2**40) - 99_991]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("engine", ("kernel", "reference"))
def test_negative_and_huge_positions_on_the_fly(engine, dtype, device):
    """Position by position, against angles by exact arithmetic."""
    ids = NEGATIVE_AND_HUGE
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
                x, module.turns(), round_once=True, transpose=x is grad, **where
            )
            for x in (t, grad)
        )
    want = rotate_fp64(t, angles[:, None, None], "sbhd")
    want_grad = gradient_fp64(t, angles[:, None, None], "sbhd", grad)
    for row, position in enumerate(ids):
        assert relative_error(out[row], want[row]) <= bar_of(t, position)
        assert relative_error(grad_t[row], want_grad[row]) <= bar_of(t, position)


# the frequencies themselves


@pytest.mark.parametrize("base", (500.0, 10_000.0, 1e6))
def test_frequencies_in_turns_against_integers(base, device):
    """Less than 2 units of 2^-64 turns: 3 pieces of 1 / 2 pi, the last bit of each cut off."""
    module = RotaryPositionEmbedding(512, rotary_base=base).to(device)
    assert worst_units(module.inv_freq) <= 2


@pytest.mark.parametrize("most", (2, 100, 10_000, 1e6, 1e12, 1e25, torch.finfo(torch.float32).max))
def test_frequencies_above_1_and_of_fp64_in_turns(most):
    """Whole turns are dropped exactly, of all that fp32 can hold."""
    uniform = most * torch.rand(500, dtype=torch.float64)
    uniform[0] = most
    assert worst_units(uniform.float()) <= 4 and worst_units(-uniform) <= 4


def worst_units(inv_freq):
    got = in_turns(inv_freq)
    assert got.dtype == torch.int64 and got.shape == inv_freq.shape
    return max(map(units_off, inv_freq.double().tolist(), got.tolist()))


def units_off(frequency, turns):
    """Distance between a frequency in 2^-64 turns and the truth, the short way round the circle."""
    difference = turns - Fraction(frequency) / (2 * PI) * 2**64
    return float(abs((difference + 2**63) % 2**64 - 2**63))


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
