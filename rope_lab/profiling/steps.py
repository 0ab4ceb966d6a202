"""Steps of a model in several ways, unpatched and patched: their kernels and their times.

Notebook 12 and `benchmarks models` measure with these.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import profile

from ..timing import in_turns

Ways = dict[str, Callable[[], AbstractContextManager]]  # name -> the context in which a step runs


def steps_of(
    ways: Ways, step: Callable[[], object], turns: int, runs: int
) -> dict[str, dict[str, float]]:
    """Way -> 'launches' and 'kernel_us' of a step by the profiler, and the median 'step_us'."""
    found = {}
    for way, entered in ways.items():
        with entered():
            found[way] = profiled(step)
    times = step_us(ways, step, turns, runs)
    return {way: found[way] | {"step_us": round(median(us), 2)} for way, us in times.items()}


def step_us(
    ways: Ways, step: Callable[[], object], turns: int, runs: int = 1
) -> dict[str, list[float]]:
    """Way -> microseconds of one of `runs` steps in a row, for each turn.

    If the host is slower than the GPU, it is the host's time. The ways alternate because clocks
    drift. The first steps of a turn are not timed: after a class was patched, a compiled model
    checks more guards.
    """

    def turn(entered: Callable[[], AbstractContextManager]) -> float:
        with entered():
            _in_a_row(step, runs)
            begin = time.perf_counter()
            _in_a_row(step, runs)
            return 1e6 * (time.perf_counter() - begin) / runs

    return in_turns(ways, turn, turns)


def profiled(call: Callable[[], object], runs: int = 5, warm_up: int = 3) -> dict[str, float]:
    """Mean of some runs after the warm-up: 'launches', and the 'kernel_us' of all of them together.

    A kernel's microseconds are those between its start and its end on the GPU. The gaps between
    kernels are not included.
    """
    _in_a_row(call, warm_up)
    kernels = kernels_of(call, runs)
    us = sum(kernel.time_range.elapsed_us() for kernel in kernels)
    return {"launches": len(kernels) / runs, "kernel_us": round(us / runs, 2)}


def kernels_of(call: Callable[[], object], runs: int = 1) -> list[FunctionEvent]:
    """The kernels of some runs, by the profiler. Copies and fills by the driver don't count."""
    with profile() as profiler:
        _in_a_row(call, runs)
    on_gpu = [event for event in profiler.events() if event.device_type == DeviceType.CUDA]
    return [event for event in on_gpu if not event.name.startswith(("Memcpy", "Memset"))]


def _in_a_row(call: Callable[[], object], times: int) -> None:
    """Call, and wait until the GPU is done, if there is one."""
    for _ in range(times):
        call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
