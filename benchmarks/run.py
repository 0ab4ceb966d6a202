"""Run a benchmark: check and time each case with all providers, and save a record.

A provider's first results are compared with fp64. A provider that doesn't support a case, is wrong
or fails is left out, and the record says why. The record is saved after every case.
"""

import gc
import importlib
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.case import LIMITS, Case
from benchmarks.inputs import Inputs
from benchmarks.providers import NOT_ASKED, PROVIDERS, Provider, Run
from benchmarks.record import path_of, save
from rope_lab.profiling import machines, measure_machine
from rope_lab.records import circumstances, origin, records_folder
from rope_lab.timing import Timing, measure, measure_host, require_compiled_kernels

EVERYBODY = "everybody"  # the name in a record if all providers are left out


class Wrong(Exception):
    """A result whose error is larger than rounding explains."""


@dataclass(frozen=True)
class GPU:
    """Everything that needs a GPU. Tests replace it."""

    rounds: int = 5
    device: str = "cuda"

    def in_turns(self, calls: dict[str, Callable], clock: str) -> dict[str, Timing]:
        """Time on the GPU with the L2 cache flushed, or the CPU's time to queue a call."""
        if clock == "host":
            return measure_host(calls, rounds=self.rounds + 2)
        return measure(calls, rounds=self.rounds)

    def machine(self) -> dict:
        """The figures that `lab.inspect` needs."""
        return measure_machine.take()

    def free(self) -> None:
        """Free the memory of a case before the next one."""
        gc.collect()
        torch.cuda.empty_cache()

    def circumstances(self) -> dict:
        """GPU, versions and date."""
        return circumstances()


def gpu_here() -> GPU | None:
    """The GPU of this machine; or None, after printing why nothing can be measured."""
    try:
        require_compiled_kernels()
    except RuntimeError as why:
        print(f"Nothing is measured: {why}", file=sys.stderr)
        return None
    return GPU()


def all_providers() -> tuple[Provider, ...]:
    """Those that are installed, then other projects from their sources."""
    return *PROVIDERS, *importlib.import_module("benchmarks.peers.projects").PROVIDERS


# a benchmark


def record(
    name: str, cases: Sequence[Case], gpu: GPU, folder: Path, among: Iterable[Provider]
) -> int:
    """Measure the cases with the providers that support any of them, and save the record.

    Returns:
        0, or 1 if ours failed or was wrong.
    """
    begin = time.monotonic()
    providers = [p for p in among if any(not p.cannot(case) for case in cases)]
    absent = why_absent(providers)
    here = [provider for provider in providers if not absent[provider.name]]
    results = new_record(name, gpu)
    if any(provider.built_with for provider in here):
        code = importlib.import_module("benchmarks.peers.code")
        results["versions"] = results["versions"] | {"nvcc": code.nvcc_version()}
    results["providers"] = {p.name: p.about() | {"absent": absent[p.name]} for p in providers}
    path = path_of(name, results["gpu"], folder)
    print(origin(results["gpu"], results["versions"], results["date"]))
    for provider, about in results["providers"].items():
        print(f"  {provider}: {about['absent'] or about['origin'] or 'part of this run'}")
    for number, case in enumerate(cases, start=1):
        print(f"[{number}/{len(cases)}] {case.label}", flush=True)
        OneCase(case, gpu, results).measure(here)
        save(path, results)
        gpu.free()
    save(path, results | {"complete": True})
    print(f"Written after {time.monotonic() - begin:.0f} s: {path}", flush=True)
    ours = {EVERYBODY, *(p.name for p in providers if p.is_ours_or_a_limit)}
    failed = [x for x in results["left_out"] if x["failed"] and x["provider"] in ours]
    for left in failed:
        place = ", ".join(left[key] for key in ("provider", "shape", "direction"))
        print("FAILED or wrong:", place, file=sys.stderr)
    return 1 if failed else 0


def new_record(name: str, gpu: GPU) -> dict:
    """A record without rows."""
    time_of = f"on the GPU, L2 flushed, median of {gpu.rounds} interleaved rounds"
    about = {"benchmark": name, "what": f"Time in microseconds: {time_of}", "providers": {}}
    return gpu.circumstances() | about | {"complete": False, "rows": [], "left_out": []}


def why_absent(providers: Sequence[Provider]) -> dict[str, str]:
    """Provider -> why it can't be measured, or ''. Compiles and imports other projects' sources."""

    def reason(provider: Provider) -> str:
        try:
            provider.prepare()
        except Exception as failure:  # The other providers are measured anyway.
            return first_line(failure)
        return ""

    with ThreadPoolExecutor() as pool:
        names = [provider.name for provider in providers]
        return dict(zip(names, pool.map(reason, providers), strict=True))


@dataclass
class OneCase:
    """A case. `measure` adds its rows to a record, and the providers that are left out."""

    case: Case
    gpu: GPU
    results: dict

    def measure(self, providers: Iterable[Provider]) -> None:
        torch._dynamo.reset()  # `compiled` in providers.py says why.
        inputs, runs, errors = Inputs(self.case, self.gpu.device), {}, {}
        for provider in providers:
            if why := provider.cannot(self.case):
                if not why.startswith(NOT_ASKED):
                    self._leave_out(provider.name, why)
                continue
            try:
                run = provider.run(inputs)
                errors[provider.name] = checked(run, provider.allowed_error(self.case))
                runs[provider.name] = run
            except Exception as failure:  # The other providers are measured anyway.
                self._leave_out(provider.name, first_line(failure), failed=True)
        try:
            calls = {name: run.call for name, run in runs.items()}
            timings = self.gpu.in_turns(calls, self.case.clock)
        except RuntimeError as failure:
            self._leave_out(EVERYBODY, first_line(failure), failed=True)
            return
        limit = next(timings[name].median_us for name in LIMITS if name in timings)
        for name, run in runs.items():
            copies = 1 if name in LIMITS else self.case.copies
            share = copies * limit / timings[name].median_us
            row = self._place(name) | asdict(timings[name])
            row |= {"of_limit": round(share, 4), "how": run.how, "error": errors[name]}
            if self.case.function:
                row["own_limit"] = round(self.case.own_limit, 4)
            self.results["rows"].append(row)
            print(_line(row), flush=True)

    def _place(self, provider: str) -> dict:
        direction = self.case.direction
        return {"shape": self.case.label, "direction": direction, "provider": provider}

    def _leave_out(self, name: str, why: str, failed: bool = False) -> None:
        """Record why a provider has no row."""
        left = self._place(name) | {"why": why, "failed": failed}
        self.results["left_out"].append(left)
        if failed:
            print(f"    {self.case.direction:14} {name:33} FAILED: {why}", flush=True)


def checked(run: Run, allowed: float) -> float | None:
    """The error of the first results. A limit doesn't rotate, so there is nothing to check."""
    results = run.call()
    if run.error is None:
        return None
    error = run.error(results)
    if not error <= allowed:  # also true for NaN
        raise Wrong(f"error {error:.2g} against fp64, {allowed:.2g} allowed")
    return float(f"{error:.3g}")


def first_line(failure: Exception) -> str:
    """The first line of an error, cut to 300 characters."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0][:300]}"


def _line(row: dict) -> str:
    said = "" if row["error"] is None else f"error {row['error']:.1e}"
    times = f"{row['median_us']:9.1f} us {row['of_limit']:6.1%}"
    return f"    {row['direction']:14} {row['provider']:33} {times}  {said}"


# other records


def record_of_models(gpu: GPU, folder: Path) -> None:
    """Measure steps of transformers models, and save the record."""
    from benchmarks import models  # It imports transformers, which takes seconds.

    results = new_record("models", gpu)
    results["versions"] = results["versions"] | {"transformers": version("transformers")}
    path = path_of("models", results["gpu"], folder)
    for row in models.steps(4 * gpu.rounds):
        print(row, flush=True)
        results["rows"].append(row)
        save(path, results)
        gpu.free()
    save(path, results | {"complete": True})


def record_of_machine(gpu: GPU) -> None:
    """Measure and save the figures of a GPU that `lab.inspect` needs."""
    path = records_folder() / "machines.json"
    machines.merge(path, gpu.circumstances(), gpu.machine())
    for name, taken in machines.read(path).items():
        found = machines.machine_of(taken)
        rates = f"W {found.bytes_a_us / 1e6:.3f} TB/s, P {found.instructions_a_us / 1e6:.2f}e12/s"
        print(f"{name}, {taken.date}: T0 {found.start_us:.2f} us, {rates}")
