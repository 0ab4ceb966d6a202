"""Measure the kernels and their alternatives, and write records and pages.

`machine` measures the figures that `lab.inspect` needs of a GPU, and `models` steps of transformers
models. Two other commands: `report` writes the pages and tables of all records, `sources` downloads
other projects' kernels.
"""

import argparse
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import run, tables
from benchmarks.case import BENCHMARKS, Case
from benchmarks.providers import Provider
from benchmarks.record import RESULTS

OTHERS = ("models", "machine")


def main(
    arguments: Sequence[str] | None = None,
    gpu: run.GPU | None = None,
    benchmarks: Mapping[str, Sequence[Case]] = BENCHMARKS,
    providers: Iterable[Provider] = (),
) -> int:
    """The command. Tests pass a fake GPU, tiny shapes, and the providers to measure."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["sources"]:
        return importlib.import_module("benchmarks.peers.projects").download_sources()
    if arguments == ["report"]:
        tables.write()
        return 0
    names = [*benchmarks, *OTHERS]
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
    gpu = gpu or run.gpu_here()
    if gpu is None:
        return 1
    folder, providers = options.out or RESULTS, providers or run.all_providers()
    if "machine" in wanted:
        run.record_of_machine(gpu)
    statuses = [
        run.record(name, cases, gpu, folder, providers)
        for name, cases in benchmarks.items()
        if name in wanted
    ]
    if "models" in wanted:
        run.record_of_models(gpu, folder)
    if options.out is None:
        tables.write()
    return max(statuses, default=0)


if __name__ == "__main__":
    sys.exit(main())
