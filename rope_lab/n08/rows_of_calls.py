"""Time calls in a row, launched one by one and in a CUDA graph."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from ..timing import in_turns

CALLS = 32  # in a row: you wait for the host or for the device, whichever is slower
CHANGES = (  # in the order in which notebook 08 asks
    "in a graph",
    "half the programs",
    "twice the arithmetic",
    "fp32, not bf16",
    "warm L2",
)
_SAMPLES = 30

Call = Callable[[], object]


def row_of(calls: Sequence[Call]) -> Call:
    """`CALLS` calls, cycling through `calls`."""
    return lambda: [calls[place % len(calls)]() for place in range(CALLS)]


def waits(rows: dict[str, Call]) -> dict[str, float]:
    """Microseconds per call until the device has finished the row; the rows alternate."""

    def wait(row: Call) -> float:
        begin = time.perf_counter()
        row()
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begin) / CALLS

    samples = in_turns(rows, wait, _SAMPLES)
    return {name: statistics.median(times) for name, times in samples.items()}
