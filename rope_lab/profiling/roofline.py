"""What a machine allows: bytes a second, instructions a second, and a start for every call.

An instruction counts once for each lane that executes it; a fused multiply-add is one instruction.
Times are in microseconds, so bandwidths are bytes a microsecond.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..rungs import SHAPE


@dataclass(frozen=True)
class Machine:
    """Three numbers of a GPU, as measured."""

    start_us: float  # a call that moves nothing
    bytes_a_us: float
    instructions_a_us: float

    def time_us(self, moved_bytes: float, instructions: float = 0.0) -> float:
        """The least time of a kernel that moves these bytes and executes these instructions."""
        slower = max(moved_bytes / self.bytes_a_us, instructions / self.instructions_a_us)
        return self.start_us + slower


def straight_line(sizes: Iterable[float], times: Iterable[float]) -> tuple[float, float]:
    """Start and slope of `time = start + slope * size`.

    Least squares of relative errors: sizes span many powers of two, and with absolute errors the
    largest would decide alone.
    """
    size, time = np.array(list(sizes), dtype=float), np.array(list(times), dtype=float)
    slope, start = np.polyfit(size, time, deg=1, w=1 / time)
    return float(start), float(slope)


def headline(instructions: float, dtype: str) -> tuple[float, float]:
    """What a rotation of the headline moves and executes, with this many instructions per element.

    Returns:
        bytes, those of its table of angles included, and instructions of all lanes.
    """
    s, b, h, d = SHAPE
    elements = s * b * h * d
    return 2 * {"bf16": 2, "fp32": 4}[dtype] * elements + 4 * s * d, instructions * elements
