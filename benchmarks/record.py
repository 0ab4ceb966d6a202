"""Run a benchmark: measure, save the record after every case, then write the pages."""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from benchmarks.gpu import GPU
from benchmarks.measure import EVERYBODY, OneCase
from benchmarks.peers.code import nvcc_version
from benchmarks.provider import Provider
from benchmarks.tables import RESULTS, Benchmark, save, write
from rope_lab.profiling import machines
from rope_lab.records import origin, records_folder


def record(benchmark: Benchmark, gpu: GPU, out: Path | None = None) -> int:
    """Measure, save the record, and write the pages.

    Args:
        out: another folder for the record. Pages are not written then.

    Returns:
        0, or 1 if ours failed or was wrong.
    """
    begin, providers = time.monotonic(), benchmark.providers
    absent = why_absent(providers)
    here = [provider for provider in providers if not absent[provider.name]]
    results = gpu.circumstances() | {"benchmark": benchmark.name}
    if any(provider.built_with for provider in here):
        results["versions"] = results["versions"] | {"nvcc": nvcc_version()}
    if benchmark.name == "models":
        results["versions"] = results["versions"] | {"transformers": version("transformers")}
    results["what"] = (
        f"Time in microseconds: on the GPU, L2 flushed, median of {gpu.rounds} interleaved rounds"
    )
    results["providers"] = {p.name: p.about() | {"absent": absent[p.name]} for p in providers}
    results |= {"complete": False, "rows": [], "left_out": []}
    file = benchmark.file.format(gpu=results["gpu"].lower().replace(" ", "-"), name=benchmark.name)
    path = (out or RESULTS) / f"{file}.json"
    print(origin(results["gpu"], results["versions"], results["date"]))
    for name, about in results["providers"].items():
        print(f"  {name}: {about['absent'] or about['origin'] or 'part of this run'}")

    cases = [(group, case) for group in benchmark.groups for case in group.cases]
    for number, (group, case) in enumerate(cases, start=1):
        print(f"[{number}/{len(cases)}] {case.label}", flush=True)
        one = OneCase(group, case, gpu, results["rows"], results["left_out"])
        one.measure([p for p in here if not group.alone or p.is_ours_or_a_limit])
        save(path, results)
    for row in benchmark.rows(gpu):
        print(row, flush=True)
        results["rows"].append(row)
        save(path, results)
        gpu.free()
    save(path, results | {"complete": True})
    print(f"Written after {time.monotonic() - begin:.0f} s: {path}", flush=True)
    if out is None:
        write()
    ours = {EVERYBODY, *(p.name for p in providers if p.is_ours_or_a_limit)}
    failed = [x for x in results["left_out"] if x["failed"] and x["provider"] in ours]
    for left in failed:
        place = ", ".join(left[name] for name in ("provider", "shape", "direction"))
        print("FAILED or wrong:", place, file=sys.stderr)
    return 1 if failed else 0


def record_of_machine(gpu: GPU) -> None:
    """Measure and save the figures of a GPU that `lab.inspect` needs."""
    path = records_folder() / "machines.json"
    machines.merge(path, gpu.circumstances(), gpu.machine())
    for name, taken in machines.read(path).items():
        found = machines.machine_of(taken)
        rates = f"W {found.bytes_a_us / 1e6:.3f} TB/s, P {found.instructions_a_us / 1e6:.2f}e12/s"
        print(f"{name}, {taken.date}: T0 {found.start_us:.2f} us, {rates}")


def why_absent(providers: Sequence[Provider]) -> dict[str, str]:
    """Provider -> why it can't be measured, or ''. Compiles and imports other projects' sources."""
    with ThreadPoolExecutor() as pool:
        reasons = pool.map(lambda provider: provider.absent(), providers)
        return {provider.name: why for provider, why in zip(providers, reasons, strict=True)}
