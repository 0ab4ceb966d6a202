"""Measure the kernels and their alternatives, and write records and pages.

`machine` measures the figures that `lab.inspect` needs of a GPU. Two other commands: `report`
writes the pages and tables of all records, `sources` downloads other projects' kernels.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import GPU, gpu_here
from benchmarks.peers import sources
from benchmarks.providers import SOURCES
from benchmarks.record import record, record_of_machine
from benchmarks.tables import BENCHMARKS, Benchmark, write

MACHINE = "machine"


def main(
    arguments: Sequence[str] | None = None,
    gpu: GPU | None = None,
    benchmarks: Sequence[Benchmark] = BENCHMARKS,
) -> int:
    """The command. Tests pass a fake GPU, and benchmarks with tiny shapes."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["sources"]:
        return sources.main(arguments[1:], SOURCES)
    if arguments == ["report"]:
        write()
        return 0
    names = [*(benchmark.name for benchmark in benchmarks), MACHINE]
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"{', '.join(names)} (default: {names[0]})"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for the results; pages are then left alone"
    )
    options = parser.parse_args(arguments)
    wanted = options.what or names[:1]
    if unknown := [name for name in wanted if name not in names]:  # nargs="*" spoils `choices`
        parser.error(f"WHAT is {unknown[0]!r}; accepted: {', '.join(names)}")
    gpu = gpu or gpu_here()
    if gpu is None:
        return 1
    if MACHINE in wanted:
        record_of_machine(gpu)
    chosen = [benchmark for benchmark in benchmarks if benchmark.name in wanted]
    return max([record(benchmark, gpu, options.out) for benchmark in chosen], default=0)


if __name__ == "__main__":
    sys.exit(main())
