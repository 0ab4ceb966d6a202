"""Measure the kernels beside other ways to compute the same, and write what came of it.

Other commands: `record` takes everything that is kept of a GPU, `report FILE ...` makes pages and
tables of results that are there, `sources` unpacks the kernels of other projects; each has a --help
of its own.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import gpu_record
from benchmarks.gpu import GPU, ROUNDS, gpu_here
from benchmarks.peers import sources
from benchmarks.providers import SOURCES
from benchmarks.record import record
from benchmarks.tables import BENCHMARKS, Benchmark, report_command

QUICK_ROUNDS = 2
COMMANDS = {"report": report_command, "sources": partial(sources.main, sources=SOURCES)}


def main(
    arguments: Sequence[str] | None = None,
    gpu: GPU | None = None,
    benchmarks: Sequence[Benchmark] = BENCHMARKS,
) -> int:
    """The command; tests hand over a GPU that is none, and benchmarks with tiny shapes."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    if arguments[:1] == ["record"]:
        return gpu_record.main(arguments[1:], gpu, benchmarks)
    names = [benchmark.name for benchmark in benchmarks]
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"{', '.join(names)} (default: {names[0]})"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, not {ROUNDS}; never a record"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for the results; tables in pages are then left alone"
    )
    options = parser.parse_args(arguments)
    wanted = options.what or names[:1]
    if unknown := [name for name in wanted if name not in names]:  # nargs="*" spoils `choices`
        parser.error(f"WHAT is {unknown[0]!r}; accepted: {', '.join(names)}")
    gpu = gpu or gpu_here(QUICK_ROUNDS if options.quick else ROUNDS)
    if gpu is None:
        return 1
    chosen = [benchmark for benchmark in benchmarks if benchmark.name in wanted]
    return max([record(benchmark, gpu, options.quick, options.out) for benchmark in chosen])


if __name__ == "__main__":
    sys.exit(main())
