"""Time calls in a row, launched one by one and in a CUDA graph, before and after a change."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from ..timing import in_a_graph, in_turns

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


def fingerprint(calls: dict[str, Call], eighths: Sequence[Call]) -> dict[str, float]:
    """Microseconds a call ("us"), and how many times as long it takes after each of `CHANGES`.

    Args:
        calls: the call "as it is", and after those changes that are tried.
        eighths: the call on each eighth of its tensors. For "warm L2" the first eighth is taken
            again and again, and compared with all of them in turn, which L2 cannot hold together.
    """
    rows = {name: row_of([call]) for name, call in calls.items()}
    rows["in a graph"] = in_a_graph(rows["as it is"])
    rows |= {"cold L2": in_a_graph(row_of(eighths)), "warm L2": in_a_graph(row_of(eighths[:1]))}
    us = waits(rows)
    before = dict.fromkeys(CHANGES, us["as it is"]) | {"warm L2": us["cold L2"]}
    ratios = {name: round(us[name] / before[name], 3) for name in CHANGES if name in us}
    return {"us": round(us["as it is"], 2)} | ratios
