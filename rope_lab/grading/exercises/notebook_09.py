"""Notebook 09: what bounds four kernels, times by the law, rotated and scaled in one kernel."""
# ruff: noqa: F821 (the letters of shapes)

from ...steps.beyond import bytes_moved
from ..spec import STRIDED, spec
from .definitions import rope
from .notebook_08 import machine


@spec(leave_out=STRIDED, launches=1, kernel=True)
def rope_scaled(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d)"):
    """`rope`, and every element divided by the square root of d."""
    return (_in_fp64(t, freqs) * t.shape[-1] ** -0.5).to(t.dtype)


def _in_fp64(t, freqs):
    return rope.function(t.double(), freqs.double())


_MACHINE = machine()
_PROGRAMS_A_US = 1600
_SHAPE = 16384, 1, 2, 128


def _us(*bytes_of_each: int) -> list[float]:
    return [_MACHINE.time_us(moved) for moved in bytes_of_each]


_ON_THE_FLY = bytes_moved(*_SHAPE, 2)
_FP32, _WITH_TABLE = bytes_moved(*_SHAPE, 4), bytes_moved(*_SHAPE, 4, table=True)
_HALF_IN_PLACE = bytes_moved(*_SHAPE, 2, rotary_dim=64, inplace=True)
_TABLE = _WITH_TABLE - _FP32
_BYTES = _ON_THE_FLY, _WITH_TABLE, _HALF_IN_PLACE

UNSEEN_SHAPE = {
    "right": _us(*_BYTES),
    "unit": "us",
    "tolerance": 0.05,
    "hint": "the bytes in the time law",
    "mistakes": {
        "T0 is missing": [moved / _MACHINE.bytes_a_us for moved in _BYTES],
        "the table's bytes are missing": [None, *_us(_FP32), None],
        "each byte is counted once, but it is read and written": _us(
            *(moved // 2 for moved in _BYTES)
        ),
        "the tail is counted, but a call in place leaves it alone": [
            *(None, None, *_us(_ON_THE_FLY))
        ],
        "a table's bytes are counted, but this call has no table: its angles are computed": [
            *(_us(_ON_THE_FLY + _TABLE)[0], None, _us(_HALF_IN_PLACE + _TABLE // 2)[0])
        ],
        "the table is counted twice, but it is only read": [
            *(None, *_us(_WITH_TABLE + _TABLE), None)
        ],
        "milliseconds, not microseconds": [us / 1000 for us in _us(*_BYTES)],
    },
}

# programs and instructions a warp of four kernels that move 128 MiB
_KERNELS = (32_768, 220), (32_768, 1840), (262_144, 79), (4_096, 2500)


def _times(programs: int, instructions: int) -> dict[str, float]:
    return {
        "bytes": 2**27 / _MACHINE.bytes_a_us,
        "instructions": 32 * programs * instructions / _MACHINE.instructions_a_us,
        "programs": programs / _PROGRAMS_A_US,
    }


def _why_not() -> dict[str, list[str | None]]:
    """For each kernel, what does not bound it, and why."""
    reasons = {}
    for place, kernel in enumerate(_KERNELS):
        for bound, us in _times(*kernel).items():
            words = f"its {bound} take {us:.0f} us, and something else takes longer"
            reasons.setdefault(words, len(_KERNELS) * [None])[place] = bound
    return reasons


_BOUNDS = [_times(*kernel) for kernel in _KERNELS]
WHICH_BOUND = {
    "right": [max(times, key=times.get) for times in _BOUNDS],
    "choices": ("bytes", "instructions", "programs"),
    "hint": "three times for each kernel; the largest one decides",
    "mistakes": _why_not(),
}
