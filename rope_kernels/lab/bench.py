"""Honest timing on a GPU, and a record of it to replay where there is no GPU.

Device time, by CUDA events (two of them alone are about a microsecond apart). Before each sample
the L2 cache is filled with something else, read and not written, so that the inputs come from
memory and nothing of the filling is still to be written back; and the GPU sleeps while the CPU
queues the call, so that the CPU's own time is not in the figure. Cases take turns over several
rounds, after one that does not count: what drifts (clocks, temperature) drifts for all of them.

Host time, where it is asked for, is what the CPU needs to queue one call, the GPU's work left out.
"""

import datetime
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from ..engine import interpreter_is_on, triton_is_installed

RECORD_SWITCH = "ROPE_KERNELS_RECORD"  # set by `make notebooks`, and by nothing else
_FLUSH_BYTES = 256 * 2**20  # or four times the L2 cache, if that is more (it is 60 MB on an H200)
_ROUND_SECONDS = 0.02
_KEY = re.compile(r"[0-9]{2}/[a-z0-9-]+")


@dataclass(frozen=True)
class Timing:
    """Time of one case, in microseconds, over all samples of all rounds."""

    median_us: float
    low_us: float  # 20 % of the samples are below
    high_us: float  # 80 % of the samples are below
    spread: float  # (largest - smallest round median) / median
    samples: int


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What was found out on a GPU, and on which, with what, and when."""

    key: str
    gpu: str
    versions: dict[str, str]
    date: str
    replayed: bool = False

    @property
    def source(self) -> str:
        """One line: where and when, and whether it was found today or is a record."""
        how = "Replayed from a record" if self.replayed else "Measured here"
        return f"{how}: {origin(self.gpu, self.versions, self.date)}"


@dataclass(frozen=True, kw_only=True)
class Measurement(Taken):
    """Timings of several cases from one run."""

    cases: dict[str, Timing]
    clock: str = "device"

    def __getitem__(self, case: str) -> Timing:
        return self.cases[case]

    def __repr__(self) -> str:
        width = max(len(case) for case in self.cases)
        lines = [
            f"{case:{width}}  {timing.median_us:9.1f} us   "
            f"({timing.low_us:.1f} to {timing.high_us:.1f})"
            for case, timing in self.cases.items()
        ]
        return "\n".join([self.source, *lines])


@dataclass(frozen=True, kw_only=True)
class Observation(Taken):
    """What an experiment returned."""

    values: dict

    def __getitem__(self, name: str) -> object:
        return self.values[name]


def bench(
    key: str,
    make_cases: Callable[[], dict[str, Callable[[], object]]],
    clock: str = "device",
    records: Path | None = None,
) -> Measurement:
    """Measure on a GPU; without one, replay the record of the same key.

    Args:
        key: 'NN/name', where NN is the notebook's number and the record's file is `NN.json`.
        make_cases: called only where there is a GPU; returns a label and a function without
            arguments for each case. It makes the inputs, so that their making is not timed.
        clock: 'device' for the time on the GPU, 'host' for the time to queue a call.
        records: the folder of the records; by default `records` beside the notebook.

    Returns:
        A `Measurement`; its `source` says whether it was measured or replayed.

    Raises:
        ValueError: the key is not of that form, or the clock is unknown.
        LookupError: there is no GPU and no record of this key.
        RuntimeError: the kernels are interpreted although there is a GPU (see `measure`).
    """
    if clock not in ("device", "host"):
        raise ValueError(f"clock is {clock!r}; accepted: 'device', 'host'")
    path = _record_of(key, records)
    if not torch.cuda.is_available():
        fields = _replay(path, key)
        cases = {name: Timing(**timing) for name, timing in fields.pop("cases").items()}
        return Measurement(key=key, cases=cases, replayed=True, **fields)
    take = measure if clock == "device" else measure_host
    measurement = Measurement(key=key, cases=take(make_cases()), clock=clock, **circumstances())
    if os.environ.get(RECORD_SWITCH) == "1":
        _write(path, measurement)
    return measurement


def observe(key: str, experiment: Callable[[], dict], records: Path | None = None) -> Observation:
    """Run an experiment on a GPU; without one, replay the record of the same key.

    Args:
        key: as in `bench`.
        experiment: called only where there is a GPU; returns a dict of what JSON can hold.
        records: as in `bench`.

    Raises:
        ValueError, LookupError, RuntimeError: as in `bench`.
    """
    path = _record_of(key, records)
    if not torch.cuda.is_available():
        return Observation(key=key, replayed=True, **_replay(path, key))
    _require_compiled_kernels()
    observation = Observation(key=key, values=experiment(), **circumstances())
    if os.environ.get(RECORD_SWITCH) == "1":
        _write(path, observation)
    return observation


def recorded(key: str, records: Path | None = None) -> Observation:
    """What an experiment of another notebook returned when it was recorded, on every machine."""
    return Observation(key=key, replayed=True, **_replay(_record_of(key, records), key))


def measure(cases: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, Timing]:
    """Device time of each case, in microseconds, L2 flushed; the cases take turns.

    Raises:
        RuntimeError: there is no GPU; a case's result is not on the current one; or Triton's
            interpreter is on. Interpreted kernels run on the CPU, program after program; their time
            says nothing about a GPU.
    """
    _require_compiled_kernels()
    cache_bytes = torch.cuda.get_device_properties().L2_cache_size
    flush = torch.zeros(max(_FLUSH_BYTES, 4 * cache_bytes) // 4, device="cuda")
    plans = {name: _plan(function) for name, function in cases.items()}
    by_round = {name: [] for name in cases}
    for _ in range(1 + rounds):
        for name, function in cases.items():
            by_round[name].append(_one_round(function, flush, *plans[name]))
    return {name: _summary(samples[1:]) for name, samples in by_round.items()}


def measure_host(
    cases: dict[str, Callable[[], object]], rounds: int = 7, calls: int = 200
) -> dict[str, Timing]:
    """Time to queue one call of each case, in microseconds: the mean of `calls` calls a sample.

    The GPU must be faster than the CPU here, or the queue fills up: take small tensors.

    Raises:
        RuntimeError: as `measure`.
    """
    _require_compiled_kernels()
    by_round = {name: [] for name in cases}
    for _ in range(1 + rounds):
        for name, function in cases.items():
            function()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                function()
            by_round[name].append([(time.perf_counter() - begin) / calls * 1e6])
            torch.cuda.synchronize()
    return {name: _summary(samples[1:]) for name, samples in by_round.items()}


def versions() -> dict[str, str]:
    """Versions that a figure depends on."""
    found = {"torch": torch.__version__}
    if triton_is_installed():
        import triton

        found["triton"] = triton.__version__
    return found | {"driver": _driver_version(), "python": platform.python_version()}


def circumstances() -> dict:
    """GPU, versions and date: what every figure names."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }


def origin(gpu: str, versions: dict[str, str], date: str) -> str:
    """The same in one line."""
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{gpu}, {listed}, {date}."


def _require_compiled_kernels() -> None:
    if not torch.cuda.is_available():
        raise RuntimeError("there is no GPU to measure on")
    kernels = sys.modules.get("rope_kernels.kernels")
    loaded_so = kernels and type(kernels.rope_kernel).__name__ == "InterpretedFunction"
    if interpreter_is_on() or loaded_so:
        raise RuntimeError("TRITON_INTERPRET is set: interpreted kernels are not timed")


def _plan(function: Callable[[], object]) -> tuple[int, int]:
    """Warm up; then how many samples a round, and how many cycles to sleep before each."""
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
    gpu_hertz = 3e9  # more than today's GPUs run at; sleeping too long costs only patience
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


def _record_of(key: str, records: Path | None) -> Path:
    if not _KEY.fullmatch(key):
        raise ValueError(f"key is {key!r}; accepted: two digits, '/', then a-z, 0-9 and '-'")
    return (records or Path("records")) / f"{key[:2]}.json"


def _replay(path: Path, key: str) -> dict:
    recorded = json.loads(path.read_text()) if path.exists() else {}
    if key not in recorded:
        raise LookupError(
            f"there is no GPU here and no record {key!r} in {path.name}; "
            "`make notebooks` on a GPU writes it"
        )
    return recorded[key]


def _write(path: Path, taken: Taken) -> None:
    path.parent.mkdir(exist_ok=True)
    recorded = json.loads(path.read_text()) if path.exists() else {}
    fields = asdict(taken)
    del fields["key"], fields["replayed"]
    recorded[taken.key] = fields
    path.write_text(json.dumps(dict(sorted(recorded.items())), indent=2) + "\n")


def _driver_version() -> str:
    number = Path("/proc/driver/nvidia/version")
    found = re.search(r"\b(\d{3}\.\d+(\.\d+)?)\b", number.read_text()) if number.exists() else None
    return found.group(1) if found else "unknown"
