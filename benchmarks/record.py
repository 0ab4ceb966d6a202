"""From a job to files: measure, save after every case, then make the page and the picture."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.case import LIMITS, Case, Group
from benchmarks.gpu import GPU
from benchmarks.kind import Kind
from benchmarks.kinds import kind_of
from benchmarks.measure import EVERYBODY, OneCase
from benchmarks.peers.code import nvcc_version
from benchmarks.provider import Provider
from benchmarks.results import RESULTS, ROOT, Table, file_name, load, save
from rope_lab.records import origin

ELSEWHERE = Path("build") / "benchmarks"  # not kept in git


@dataclass(frozen=True)
class Job:
    """Sets of one kind, beside the providers that their groups name, or those named here."""

    kind: Kind
    sets: tuple[str, ...]
    beside: Sequence[str] = ()  # (): those that the groups name
    quick: bool = False
    out: Path | None = None

    @property
    def is_record(self) -> bool:
        """Is it all that a record of this kind holds, measured in full?"""
        return self.sets == self.kind.record and not self.beside and not self.quick

    @property
    def folder(self) -> Path:
        """Where the results go."""
        return self.out or (RESULTS if self.is_record else ELSEWHERE)

    def path(self, gpu: str) -> Path:
        """The file of results. A set's name tells a part of a kind's sets from its record."""
        name = self.kind.file.format(gpu=file_name(gpu))
        parts = () if self.is_record or len(self.kind.sets) == 1 else self.sets
        return self.folder / f"{'-'.join([name, *parts])}.json"

    def cases(self) -> Iterator[tuple[str, Group, Case]]:
        """With the name of the set and the group."""
        for name in self.sets:
            for group in self.kind.sets[name]:
                for case in group.cases:
                    yield name, group, case

    def providers(self, *groups: Group) -> list[Provider]:
        """Those of some groups, or of all, in their order: limits and ours always."""
        groups = groups or tuple(group for _, group, _ in self.cases())
        wanted = {*LIMITS, *self.kind.ours}
        for group in groups:
            wanted.update(self.beside or group.beside)
        return [provider for name, provider in self.kind.providers.items() if name in wanted]


def record(job: Job, gpu: GPU) -> int:
    """Measure, write, report.

    Returns:
        0, or 1 if ours failed or was wrong.
    """
    providers, cases, found = job.providers(), list(job.cases()), {"rows": [], "left_out": []}
    with ThreadPoolExecutor() as pool:  # compiles and imports what comes from sources
        reasons = pool.map(lambda provider: provider.absent(), providers)
    absent = {p.name: why for p, why in zip(providers, reasons, strict=True) if why}
    begin, header = time.monotonic(), _header(job, gpu, absent)
    path = job.path(header["gpu"])
    print(origin(header["gpu"], header["versions"], header["date"]))
    print("Clocks:", header["clocks"] or "not told")
    for provider in providers:
        print(f"  {provider.name}: {absent.get(provider.name) or provider.origin()}")

    def spent() -> float:
        return round(time.monotonic() - begin, 1)

    def store(complete: bool = False) -> None:
        late = {"seconds": spent(), "complete": complete}
        save(path, header | late | found)

    for number, (name, group, case) in enumerate(cases, start=1):
        print(f"[{number}/{len(cases)}] {name}: {case.label}", flush=True)
        one = OneCase(job.kind, name, group, case, gpu, found)
        one.measure([p for p in job.providers(group) if p.name not in absent])
        store()
    for part in job.kind.more(gpu, found):
        print(part, flush=True)
        store()
        gpu.free()
    header["clocks_at_the_end"] = gpu.clocks()
    store(complete=True)
    print(f"Written after {spent():.0f} s: {path}", flush=True)
    if found["rows"] or job.kind.mark in found:
        print(report(path, into_pages=job.is_record and job.folder == RESULTS))
    return _failures(job, found)


def _header(job: Job, gpu: GPU, absent: dict[str, str]) -> dict:
    providers, header = job.providers(), gpu.circumstances()
    if any(provider.built_with for provider in providers):
        header["versions"] = header["versions"] | {"nvcc": nvcc_version()}
    time_of = f"on the GPU, L2 flushed, median of {gpu.rounds} interleaved rounds"
    header |= {"what": f"Time in microseconds: {time_of}", "sets": job.sets}
    header |= {"record": job.is_record, "quick": job.quick, "clocks": gpu.clocks()}
    return header | job.kind.about(providers, absent)


def _failures(job: Job, found: dict[str, list[dict]]) -> int:
    """Say where ours failed or was wrong: 1 if it did anywhere."""
    failed = [left for left in found["left_out"] if left["failed"]]
    ours = [left for left in failed if left["provider"] in (*job.kind.ours, EVERYBODY)]
    for left in ours:
        place = left.get("shape") or left["format"]
        print("FAILED or wrong:", left["provider"], place, left["direction"], file=sys.stderr)
    return 1 if ours else 0


def report(path: Path, into_pages: bool) -> str:
    """Draw the picture and write the page beside a file of results; fill in README's tables.

    Returns what was written, and the tables that fill in no page, as text to print.
    """
    results = load(path)
    kind, written = kind_of(results), []
    if kind.has_picture:
        from benchmarks.pictures import draw  # matplotlib: not before the results are safe

        written += draw(results, path)
    if kind.page:
        path.with_suffix(".md").write_text(kind.page(results))
        written.append(path.with_suffix(".md"))
    tables = kind.tables(results)
    for table in tables if into_pages else ():
        table.write()
        written.append(table.file)
    names = [p.relative_to(ROOT) if p.is_relative_to(ROOT) else p.name for p in written]
    shown = [] if into_pages else [table.text for table in tables if isinstance(table, Table)]
    said = ["Written: " + ", ".join(map(str, names))] if names else []
    return "\n\n".join([*said, *shown])


def report_command(arguments: Sequence[str]) -> int:
    """Everything that is made of files of results: nothing is typed."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks report", description=report_command.__doc__
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in (file.resolve() for file in parser.parse_args(arguments).files):
        is_record = path.parent == RESULTS and load(path).get("record", False)
        print(report(path, into_pages=is_record))
    return 0
