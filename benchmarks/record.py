"""Measure what a job says, save after every case, then make the page and the pictures."""

import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.instruments import GPU
from benchmarks.job import Job
from benchmarks.measure import EVERYBODY, NO_TIME, Results, measure_cases
from benchmarks.peers.building import nvcc_version
from benchmarks.providers.base import Provider
from benchmarks.rows import RESULTS, save
from rope_lab.records import origin


def record(job: Job, instruments: GPU) -> int:
    """Measure, write, report.

    Returns:
        0, or 1 if ours failed or was wrong.
    """
    absent = make_ready(job.providers())
    begin = time.monotonic()

    def spent() -> float:
        return round(time.monotonic() - begin, 1)

    header = _header(job, instruments, absent)
    path = job.path(header["gpu"])
    print(origin(header["gpu"], header["versions"], header["date"]))
    print("Clocks:", header["clocks"] or "not told")
    for provider in job.providers():
        print(f"  {provider.name}: {absent.get(provider.name) or provider.origin()}")

    def store(results: Results, complete: bool = False) -> None:
        late = {"seconds": spent(), "complete": complete}
        save(path, header | late | {"rows": results.rows, "left_out": results.left_out})

    def is_late() -> bool:
        return spent() >= 60 * job.minutes

    results = measure_cases(job, instruments, absent, is_late, after_each=store)
    header["clocks_at_the_end"] = instruments.clocks()
    store(results, complete=all(left["why"] != NO_TIME for left in results.left_out))
    print(f"Written after {spent():.0f} s: {path}", flush=True)
    if results.rows:
        from benchmarks.report import write_report  # matplotlib: not before the results are safe

        print(write_report(path, into_readme=job.is_record and job.folder == RESULTS))
    return _failures(job, results)


def make_ready(providers: Iterable[Provider]) -> dict[str, str]:
    """Compile and import what comes from sources, several at a time; name -> why it is absent."""
    providers = list(providers)
    with ThreadPoolExecutor() as pool:
        reasons = pool.map(lambda provider: provider.absent(), providers)
    return {p.name: why for p, why in zip(providers, reasons, strict=True) if why}


def _header(job: Job, instruments: GPU, absent: dict[str, str]) -> dict:
    providers = job.providers()
    header = instruments.circumstances()
    if any(provider.built_with for provider in providers):
        header["versions"] = header["versions"] | {"nvcc": nvcc_version()}
    header["what"] = (
        "Time in microseconds: on the GPU, L2 flushed, median of "
        f"{instruments.rounds} interleaved rounds"
    )
    header |= {"sets": job.sets, "record": job.is_record, "quick": job.quick}
    header["clocks"] = instruments.clocks()
    return header | job.kind.about(providers, absent)


def _failures(job: Job, results: Results) -> int:
    """Say where ours failed or was wrong: 1 if it did anywhere."""
    failed = [left for left in results.left_out if left["failed"] and left["why"] != NO_TIME]
    wrong = [row for row in results.rows if not row.get("right", True)]
    ours = [row for row in (*failed, *wrong) if row["provider"] in (*job.kind.ours, EVERYBODY)]
    for row in ours:
        place = row.get("shape") or row["format"]
        print("FAILED or wrong:", row["provider"], place, row["direction"], file=sys.stderr)
    return 1 if ours else 0
