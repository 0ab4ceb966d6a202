"""Measure, write a file of results, then draw and fill in what is made from it."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.instruments import GPU
from benchmarks.measure import Results, estimate_seconds, measure_groups
from benchmarks.providers import OURS, PROVIDERS
from benchmarks.rows import RESULTS, save
from benchmarks.shapes import RECORD, SETS
from rope_kernels.machine.engine import interpreter_is_on
from rope_lab.records import origin

QUICK_ROUNDS = 2
ELSEWHERE = Path("build") / "benchmarks"  # not kept in git


def main(
    arguments: Sequence[str] | None = None,
    instruments: GPU | None = None,
    sets: dict | None = None,
) -> int:
    """The command; tests hand over instruments that need no GPU, and sets of tiny shapes."""
    sets = SETS if sets is None else sets
    options = _parser(sets).parse_args(arguments)
    if instruments is None:
        why = _why_not_here()
        if why:
            print(why, file=sys.stderr)
            return 1
        instruments = GPU(rounds=QUICK_ROUNDS if options.quick else 5)

    chosen = {name: sets[name] for name in options.shapes or RECORD}
    beside = options.providers
    if beside and "all" in beside:
        beside = list(PROVIDERS)
    is_record = tuple(chosen) == RECORD and beside is None and not options.quick
    folder = Path(options.out) if options.out else (RESULTS if is_record else ELSEWHERE)
    header = _header(tuple(chosen), is_record, options.quick, instruments)
    path = folder / f"{_file_name(header['gpu'], tuple(chosen), is_record)}.json"

    seconds = estimate_seconds(chosen, beside)
    print(origin(header["gpu"], header["versions"], header["date"]))
    print("Clocks:", header["clocks"] or "not told")
    for name, version in header["providers"].items():
        print(f"  {name}: {'not installed' if version is None else version or 'part of this run'}")
    print(f"About {seconds / 60:.0f} minutes. Results: {path}", flush=True)

    begin = time.monotonic()

    def spent() -> float:
        return round(time.monotonic() - begin, 1)

    def store(results: Results, complete: bool = False) -> None:
        late = {"seconds": spent(), "complete": complete}
        save(path, header | late | {"rows": results.rows, "left_out": results.left_out})

    results = measure_groups(
        chosen, instruments, beside, lambda: spent() >= 60 * options.minutes, after_each=store
    )
    header["clocks_at_the_end"] = instruments.clocks()
    late = any(left["why"] == "no time left" for left in results.left_out)
    store(results, complete=not late)
    print(f"Written after {spent():.0f} s: {path}", flush=True)

    if results.rows:
        from benchmarks.report import write_report  # matplotlib: not before the results are safe

        print(write_report(path, is_record and folder == RESULTS))
    ours = [left for left in results.left_out if left["failed"] and left["provider"] == OURS]
    wrong = [row for row in results.rows if row["provider"] == OURS and not row["right"]]
    for row in (*ours, *wrong):
        print("FAILED or wrong:", row["shape"], row["direction"], file=sys.stderr)
    return 1 if ours or wrong else 0


def _parser(sets: dict) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=sorted(sets),
        help=f"sets of shapes by name (default: {' '.join(RECORD)}, which make the record)",
    )
    parser.add_argument(
        "--providers",
        nargs="+",
        choices=["all", *PROVIDERS],
        metavar="NAME",
        help="measure these beside copy_ and rope_kernels, wherever they can; or 'all': "
        + ", ".join(PROVIDERS),
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of 5; never a record"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="start no case after these")
    parser.add_argument(
        "--out", help="folder for the results; README.md is then left as it is (see report.py)"
    )
    return parser


def _why_not_here() -> str:
    if not torch.cuda.is_available():
        return "There is no CUDA GPU here to measure on."
    if interpreter_is_on():
        return (
            f"TRITON_INTERPRET is {os.environ['TRITON_INTERPRET']}: Triton's interpreter runs "
            "kernels on the CPU, whose time says nothing about a GPU. Unset it."
        )
    return ""


def _header(shapes: tuple[str, ...], record: bool, quick: bool, instruments: GPU) -> dict:
    return instruments.circumstances() | {
        "what": "Time in microseconds: on the GPU, L2 flushed, median of "
        f"{instruments.rounds} interleaved rounds",
        "format": 2,
        "sets": shapes,
        "record": record,
        "quick": quick,
        "clocks": instruments.clocks(),
        "providers": {name: provider.version() for name, provider in PROVIDERS.items()},
        "packages": {p.distribution: p.version() for p in PROVIDERS.values() if p.version()},
    }


def _file_name(gpu: str, shapes: tuple[str, ...], record: bool) -> str:
    name = gpu.lower().replace(" ", "-")
    return name if record else "-".join([name, *shapes])


if __name__ == "__main__":
    sys.exit(main())
