"""Notebook 09: what bounds four kernels, and a norm of rows of any length."""

from dataclasses import replace

from ..judge.definitions import rms_norm_of_rows
from ..judge.spec import Case
from ..profiling import machines
from ..profiling.roofline import Machine

# the last row is longer than a block can be
rms_norm = replace(
    rms_norm_of_rows,
    extra=(*rms_norm_of_rows.extra, Case("a row of a million elements", {"s": 1, "d": 2**20 + 1})),
)

_PROGRAMS_A_US = 1600
# programs and instructions a warp of four kernels that move 128 MiB
_KERNELS = (32_768, 220), (32_768, 1840), (262_144, 79), (4_096, 2500)


def _times(law: Machine, programs: int, instructions: int) -> dict[str, float]:
    return {
        "bytes": 2**27 / law.bytes_a_us,
        "instructions": 32 * programs * instructions / law.instructions_a_us,
        "programs": programs / _PROGRAMS_A_US,
    }


def which_bound() -> dict:
    """What `check_choices` takes. Reads notebook 08's record."""
    law, reasons, right = machines.of_notebook_08(), {}, []
    for place, kernel in enumerate(_KERNELS, 1):
        times = _times(law, *kernel)
        right.append(max(times, key=times.get))
        for bound, us in times.items():  # what does not bound it, and why
            words = f"its {bound} take {us:.0f} us, and something else takes longer"
            reasons.setdefault(words, {})[place] = bound
    return {
        "right": right,
        "choices": ("bytes", "instructions", "programs"),
        "hint": "three times for each kernel; the longest one is the limit",
        "mistakes": reasons,
    }
