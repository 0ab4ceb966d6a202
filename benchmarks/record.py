"""Measure what a run says, save after every case, then make the page and the pictures."""

import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.instruments import GPU
from benchmarks.measure import NO_TIME, Results, measure_cases
from benchmarks.peers.building import nvcc_version
from benchmarks.providers.base import Provider
from benchmarks.rows import RESULTS, save
from benchmarks.run import Run
from rope_lab.records import origin


def record(run: Run, instruments: GPU) -> int:
    """Measure, write, report.

    Returns:
        0, or 1 if ours failed or was wrong.
    """
    begin = time.monotonic()

    def spent() -> float:
        return round(time.monotonic() - begin, 1)

    absent = make_ready(run.providers())
    header = _header(run, instruments, absent)
    path = run.path(header["gpu"])
    print(origin(header["gpu"], header["versions"], header["date"]))
    print("Clocks:", header["clocks"] or "not told")
    for provider in run.providers():
        print(f"  {provider.name}: {absent.get(provider.name) or provider.origin()}")

    def store(results: Results, complete: bool = False) -> None:
        late = {"seconds": spent(), "complete": complete}
        save(path, header | late | {"rows": results.rows, "left_out": results.left_out})

    def is_late() -> bool:
        return spent() >= 60 * run.minutes

    results = measure_cases(run, instruments, absent, is_late, after_each=store)
    header["clocks_at_the_end"] = instruments.clocks()
    store(results, complete=all(left["why"] != NO_TIME for left in results.left_out))
    print(f"Written after {spent():.0f} s: {path}", flush=True)
    if results.rows:
        from benchmarks.report import write_report  # matplotlib: not before the results are safe

        print(write_report(path, into_readme=run.is_record and run.folder == RESULTS))
    return _failures(run, results)


def make_ready(providers: Iterable[Provider]) -> dict[str, str]:
    """Compile and import what comes from sources, several at a time; name -> why it is absent."""
    providers = list(providers)
    with ThreadPoolExecutor() as pool:
        reasons = pool.map(lambda provider: provider.absent(), providers)
    return {p.name: why for p, why in zip(providers, reasons, strict=True) if why}


def _header(run: Run, instruments: GPU, absent: dict[str, str]) -> dict:
    providers = run.providers()
    header = instruments.circumstances()
    if any(provider.built_with for provider in providers):
        header["versions"] = header["versions"] | {"nvcc": nvcc_version()}
    header["what"] = (
        "Time in microseconds: on the GPU, L2 flushed, median of "
        f"{instruments.rounds} interleaved rounds"
    )
    header |= {"sets": run.sets, "record": run.is_record, "quick": run.quick}
    header["clocks"] = instruments.clocks()
    return header | run.kind.about(providers, absent)


def _failures(run: Run, results: Results) -> int:
    """Say where ours failed or was wrong: 1 if it did anywhere."""
    failed = [left for left in results.left_out if left["failed"]]
    wrong = [row for row in results.rows if not row.get("right", True)]
    ours = [row for row in (*failed, *wrong) if row["provider"] in run.kind.ours]
    for row in ours:
        place = row.get("shape") or row["format"]
        print("FAILED or wrong:", row["provider"], place, row["direction"], file=sys.stderr)
    return 1 if ours else 0
