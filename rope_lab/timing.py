"""Honest timing on a GPU.

Device time is measured with CUDA events (with nothing between them, two events are about a
microsecond apart). Before each sample, other data is read into the L2 cache, so that the inputs
come from HBM. It is only read, so nothing has to be written back. Then the GPU sleeps while the CPU
queues the call, so that the CPU's time is not included. Cases alternate over several rounds, so
that drift (clocks, temperature) affects all of them. The first round does not count.

Host time is what the CPU takes to queue one call, without the GPU's work.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_leaves

from rope_kernels.paths import interpreter_is_on

_FLUSH_BYTES = 256 * 2**20  # or four times the L2 cache, if that is more (it is 60 MB on an H200)
_ROUND_SECONDS = 0.02


@dataclass(frozen=True)
class Timing:
    """Time of one case, in microseconds, over all samples of all rounds."""

    median_us: float
    low_us: float  # 20 % of the samples are below
    high_us: float  # 80 % of the samples are below
    spread: float  # (largest - smallest round median) / median
    samples: int


def measure(cases: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, Timing]:
    """Device time of each case, in microseconds, with L2 flushed; the cases alternate.

    Raises:
        RuntimeError: there is no GPU; a case's result is not on the current one; or Triton's
            interpreter is on. Interpreted kernels run on the CPU, one program at a time; their time
            says nothing about a GPU.
    """
    require_compiled_kernels()
    cache_bytes = torch.cuda.get_device_properties().L2_cache_size
    flush = torch.zeros(max(_FLUSH_BYTES, 4 * cache_bytes) // 4, device="cuda")
    planned = {name: (function, flush, *_plan(function)) for name, function in cases.items()}
    found = in_turns(planned, lambda plan: _one_round(*plan), rounds)
    return {name: _summary(samples) for name, samples in found.items()}


def measure_host(
    cases: dict[str, Callable[[], object]], rounds: int = 7, calls: int = 200
) -> dict[str, Timing]:
    """Time to queue one call of each case, in microseconds: a sample is the mean of `calls` calls.

    The GPU must be faster than the CPU here, or the queue fills up: take small tensors.

    Raises:
        RuntimeError: as in `measure`.
    """
    require_compiled_kernels()

    def one_round(function: Callable[[], object]) -> list[float]:
        function()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        queued = time.perf_counter() - begin
        torch.cuda.synchronize()
        return [queued / calls * 1e6]

    found = in_turns(cases, one_round, rounds)
    return {name: _summary(samples) for name, samples in found.items()}


def in_turns(cases: dict, take: Callable, rounds: int) -> dict[str, list]:
    """The results of `take` for each case, round by round; the first round does not count."""
    taken = [{name: take(case) for name, case in cases.items()} for _ in range(1 + rounds)]
    return {name: [found[name] for found in taken[1:]] for name in cases}


def in_a_graph(call: Callable[[], object], times: int = 1) -> Callable[[], object]:
    """Capture this many calls in a CUDA graph, one after the other; they don't run yet.

    Returns:
        A function that replays the graph and returns the results of the last call. A graph knows
        only addresses, so the function keeps the call, its results and their memory alive.
    """
    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(warm_up)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            results = call()

    def replay() -> object:
        graph.replay()
        return results

    replay.call = call
    return replay


def require_compiled_kernels() -> None:
    if not torch.cuda.is_available():
        raise RuntimeError("there is no GPU to measure on")
    kernels = sys.modules.get("rope_kernels.kernel")
    loaded_so = kernels and type(kernels.rope_kernel).__name__ == "InterpretedFunction"
    if interpreter_is_on() or loaded_so:
        raise RuntimeError("TRITON_INTERPRET is set: interpreted kernels are not timed")


def _plan(function: Callable[[], object]) -> tuple[int, int]:
    """Warm up; returns the samples per round, and the cycles to sleep before each."""
    for _ in range(3):  # compiles, fills the allocator's cache
        result = function()
    here = torch.device("cuda", torch.cuda.current_device())
    if any(leaf.device != here for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)):
        raise RuntimeError(f"a case's result is not on {here}, where the time is taken")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    function()
    queued = time.perf_counter() - begin
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    samples = min(50, max(5, int(_ROUND_SECONDS / total)))
    gpu_hertz = 3e9  # above the clock of today's GPUs; sleeping too long only takes time
    return samples, int(gpu_hertz * (2 * queued + 20e-6))


def _one_round(
    function: Callable[[], object], flush: torch.Tensor, samples: int, sleep_cycles: int
) -> list[float]:
    events = []
    for _ in range(samples):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.sum()
        torch.cuda._sleep(sleep_cycles)  # the CPU queues the call while the GPU is busy
        start.record()
        function()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in events]


def _summary(rounds: list[list[float]]) -> Timing:
    samples = sorted(sample for one_round in rounds for sample in one_round)
    median = statistics.median(samples)
    round_medians = [statistics.median(one_round) for one_round in rounds]
    return Timing(
        median_us=round(median, 2),
        low_us=round(samples[int(0.2 * (len(samples) - 1))], 2),
        high_us=round(samples[int(0.8 * (len(samples) - 1))], 2),
        spread=round((max(round_medians) - min(round_medians)) / median, 4),
        samples=len(samples),
    )
