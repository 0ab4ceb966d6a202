"""One run of one kind: measure, save after every case, then make the page and the pictures."""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.instruments import GPU
from benchmarks.kinds import Kind
from benchmarks.measure import NO_TIME, Results, estimate_seconds, make_ready, measure_groups
from benchmarks.peers.building import nvcc_version
from benchmarks.providers.base import Provider
from benchmarks.rows import RESULTS, save
from rope_lab.records import origin

ELSEWHERE = Path("build") / "benchmarks"  # not kept in git


@dataclass(frozen=True)
class Run:
    """What to measure, and where the results go."""

    kind: Kind
    sets: tuple[str, ...]
    beside: Iterable[str] | None = None  # instead of those that a group names
    quick: bool = False
    minutes: float = 60.0  # start no case after these
    out: Path | None = None

    @property
    def is_record(self) -> bool:
        """Is it all that a record of this kind holds, measured in full?"""
        return self.sets == self.kind.record and self.beside is None and not self.quick

    @property
    def folder(self) -> Path:
        """Where the results go."""
        return self.out or (RESULTS if self.is_record else ELSEWHERE)

    def path(self, gpu: str) -> Path:
        """The file of results. A set's name tells a part of a kind's sets from its record."""
        name = self.kind.file.format(gpu=gpu.lower().replace(" ", "-"))
        parts = () if self.is_record or len(self.kind.sets) == 1 else self.sets
        return self.folder / f"{'-'.join([name, *parts])}.json"

    def providers(self) -> list[Provider]:
        """Everybody who takes part, in the order of the tables."""
        groups = [group for name in self.sets for group in self.kind.sets[name]]
        names = {name for group in groups for name in self.kind.names_of(group, self.beside)}
        return [provider for name, provider in self.kind.providers.items() if name in names]


def measure(run: Run, instruments: GPU) -> int:
    """Measure, write, report.

    Returns:
        0, or 1 if ours failed or was wrong.
    """
    begin = time.monotonic()

    def spent() -> float:
        return round(time.monotonic() - begin, 1)

    sets = {name: run.kind.sets[name] for name in run.sets}
    absent = make_ready(run.providers())
    header = _header(run, instruments, absent)
    path = run.path(header["gpu"])
    _announce(header, absent, run)
    seconds = estimate_seconds(run.kind, sets, run.beside, absent)
    print(f"About {seconds / 60:.0f} minutes. Results: {path}", flush=True)

    def store(results: Results, complete: bool = False) -> None:
        late = {"seconds": spent(), "complete": complete}
        save(path, header | late | {"rows": results.rows, "left_out": results.left_out})

    results = measure_groups(
        run.kind,
        sets,
        instruments,
        run.beside,
        absent,
        out_of_time=lambda: spent() >= 60 * run.minutes,
        after_each=store,
    )
    header["clocks_at_the_end"] = instruments.clocks()
    store(results, complete=all(left["why"] != NO_TIME for left in results.left_out))
    print(f"Written after {spent():.0f} s: {path}", flush=True)
    if results.rows:
        from benchmarks.report import write_report  # matplotlib: not before the results are safe

        print(write_report(path, into_readme=run.is_record and run.folder == RESULTS))
    return _failures(run.kind, results)


def _announce(header: dict, absent: dict[str, str], run: Run) -> None:
    print(origin(header["gpu"], header["versions"], header["date"]))
    print("Clocks:", header["clocks"] or "not told")
    for provider in run.providers():
        print(f"  {provider.name}: {absent.get(provider.name) or provider.origin()}")


def _header(run: Run, instruments: GPU, absent: dict[str, str]) -> dict:
    providers = run.providers()
    circumstances = instruments.circumstances()
    if any(provider.built_with for provider in providers):
        circumstances["versions"] = circumstances["versions"] | {"nvcc": nvcc_version()}
    header = {
        "what": "Time in microseconds: on the GPU, L2 flushed, median of "
        f"{instruments.rounds} interleaved rounds",
        "sets": run.sets,
        "record": run.is_record,
        "quick": run.quick,
        "clocks": instruments.clocks(),
    }
    return circumstances | header | run.kind.about(providers, absent)


def _failures(kind: Kind, results: Results) -> int:
    """Say where ours failed or was wrong: 1 if it did anywhere."""
    failed = [left for left in results.left_out if left["failed"]]
    wrong = [row for row in results.rows if not row.get("right", True)]
    ours = [row for row in (*failed, *wrong) if row["provider"] in kind.ours]
    for row in ours:
        place = row.get("shape") or row.get("format")
        print("FAILED or wrong:", row["provider"], place, row["direction"], file=sys.stderr)
    return 1 if ours else 0
