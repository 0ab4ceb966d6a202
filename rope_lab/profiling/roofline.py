"""What a machine allows: bytes and operations a second, and no call for nothing.

An operation is an instruction that one lane executes: a product and a sum in one (an fma) count as
one. Times are in microseconds, so bandwidths are bytes a microsecond.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Machine:
    """Three numbers of a GPU, as measured."""

    start_us: float  # a call that moves nothing
    bytes_a_us: float
    operations_a_us: float

    @property
    def ridge(self) -> float:
        """Operations a byte at which memory and arithmetic take the same time."""
        return self.operations_a_us / self.bytes_a_us

    def allowed(self, operations_a_byte: float) -> float:
        """Operations a microsecond at most."""
        return min(self.operations_a_us, operations_a_byte * self.bytes_a_us)

    def time_us(self, moved_bytes: float, operations: float = 0.0) -> float:
        """Of a kernel that moves so many bytes and executes so many operations."""
        slower = max(moved_bytes / self.bytes_a_us, operations / self.operations_a_us)
        return self.start_us + slower


def straight_line(sizes: Iterable[float], times: Iterable[float]) -> tuple[float, float]:
    """Start and slope of `time = start + slope * size`, all points alike in per cent.

    Least squares of relative errors: sizes span many powers of two, and the largest would decide
    alone otherwise.
    """
    size, time = np.array(list(sizes), dtype=float), np.array(list(times), dtype=float)
    columns = np.stack([1 / time, size / time], axis=1)
    (start, slope), *_ = np.linalg.lstsq(columns, np.ones_like(time), rcond=None)
    return float(start), float(slope)
