"""Measure the kernels beside other ways to compute the same, and write what came of it.

Other commands: `report FILE ...` makes pages and pictures of results that are there, `sources`
unpacks the kernels of other projects; each has a --help of its own.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.gpu import GPU, can_measure
from benchmarks.kind import Kind
from benchmarks.kinds import KINDS
from benchmarks.peers import sources
from benchmarks.record import Job, record, report_command

ROUNDS, QUICK_ROUNDS = 5, 2
DEFAULT = KINDS[0].record  # of rotations


COMMANDS = {"report": report_command, "sources": sources.main}


def main(
    arguments: Sequence[str] | None = None,
    gpu: GPU | None = None,
    kinds: Iterable[Kind] = KINDS,
) -> int:
    """The command; tests hand over a GPU that is none, and kinds with tiny shapes."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    options = _parsed(arguments, kinds)
    jobs = [
        Job(
            kind,
            sets=tuple(name for name in kind.sets if name in options.what),
            beside=tuple(kind.providers) if "all" in options.providers else options.providers,
            quick=options.quick,
            out=options.out,
        )
        for kind in kinds
        if set(kind.sets) & set(options.what)
    ]
    if options.list:
        for job in jobs:
            print("\n".join(f"{name}: {case.label}" for name, _, case in job.cases()))
            print("\n".join(f"    {p.name}: {p.origin()}" for p in job.providers()))
        return 0
    if gpu is None:
        if not can_measure():
            return 1
        gpu = GPU(rounds=QUICK_ROUNDS if options.quick else ROUNDS)
    return max([record(job, gpu) for job in jobs])


def _parsed(arguments: Sequence[str], kinds: Iterable[Kind]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    sets = [name for kind in kinds for name in kind.sets]
    names = list(dict.fromkeys(name for kind in kinds for name in kind.providers))
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help=f"{', '.join(sets)} (default: {' '.join(DEFAULT)}, which make the record)",
    )
    parser.add_argument("--list", action="store_true", help="say what would be measured")
    parser.add_argument(
        "--providers",
        nargs="+",
        default=(),
        choices=["all", *names],
        metavar="NAME",
        help="measure these beside the limit and ours, wherever they can; or 'all'; "
        "--list has the names",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_ROUNDS} rounds instead of {ROUNDS}; never a record",
    )
    parser.add_argument(
        "--out", type=Path, help="folder for the results; tables of README are then left alone"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.what if name not in sets]  # nargs="*" spoils `choices`
    if unknown:
        parser.error(f"WHAT is {unknown[0]!r}; accepted: {', '.join(sets)}")
    options.what = options.what or DEFAULT
    return options


if __name__ == "__main__":
    sys.exit(main())
