"""What a machine allows: bytes a second, instructions a second, and a start for every call.

An instruction counts once for each lane that executes it; a fused multiply-add is one instruction.
Times are in microseconds, so bandwidths are bytes a microsecond.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Machine:
    """Three numbers of a GPU, as measured."""

    start_us: float  # a call that moves nothing
    bytes_a_us: float
    instructions_a_us: float

    @property
    def ridge(self) -> float:
        """Instructions a byte at which memory and instructions take the same time."""
        return self.instructions_a_us / self.bytes_a_us

    def allowed(self, instructions_a_byte: float) -> float:
        """Instructions a microsecond at most."""
        return min(self.instructions_a_us, instructions_a_byte * self.bytes_a_us)

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
    columns = np.stack([1 / time, size / time], axis=1)
    (start, slope), *_ = np.linalg.lstsq(columns, np.ones_like(time), rcond=None)
    return float(start), float(slope)
