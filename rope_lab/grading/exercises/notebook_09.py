"""Notebook 09: what bounds four kernels."""

from .notebook_08 import machine

_MACHINE = machine()
_PROGRAMS_A_US = 1600
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
