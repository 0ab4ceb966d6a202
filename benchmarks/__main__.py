"""Measure the kernels beside other ways to compute the same, and write what came of it.

Other commands: `report FILE ...` makes pages and pictures of results that are there, `sources`
unpacks the kernels of other projects; each has a --help of its own.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from benchmarks import report, run
from benchmarks.instruments import GPU
from benchmarks.kinds import KINDS, Kind
from benchmarks.peers import sources
from benchmarks.shapes import RECORD
from rope_kernels.engine import interpreter_is_on

ROUNDS, QUICK_ROUNDS = 5, 2
COMMANDS = {"report": report.main, "sources": sources.main}


def main(
    arguments: Sequence[str] | None = None,
    instruments: GPU | None = None,
    kinds: Iterable[Kind] = KINDS,
) -> int:
    """The command; tests hand over instruments that need no GPU, and kinds with tiny shapes."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    options = _parsed(arguments, kinds)
    runs = [_run_of(kind, options) for kind in kinds if set(kind.sets) & set(options.what)]
    if options.list:
        print("\n".join(line for one in runs for line in _listed(one)))
        return 0
    if instruments is None:
        why = _why_not_here()
        if why:
            print(why, file=sys.stderr)
            return 1
        instruments = GPU(rounds=QUICK_ROUNDS if options.quick else ROUNDS)
    return max([run.measure(one, instruments) for one in runs])


def _run_of(kind: Kind, options: argparse.Namespace) -> run.Run:
    beside = options.providers
    if beside and "all" in beside:
        beside = list(kind.providers)
    return run.Run(
        kind,
        sets=tuple(name for name in kind.sets if name in options.what),
        beside=beside,
        quick=options.quick,
        minutes=options.minutes,
        out=options.out,
    )


def _listed(one: run.Run) -> list[str]:
    lines = []
    for name in one.sets:
        cases = [case for group in one.kind.sets[name] for case in group.cases]
        lines += [f"{name}: {len(cases)} cases", *(f"  {case.label}" for case in cases)]
    lines.append(f"beside, for {' and '.join(one.sets)}:")
    for provider in one.providers():
        lines.append(f"  {provider.name}: {provider.origin()}")
    return lines


def _parsed(arguments: Sequence[str], kinds: Iterable[Kind]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    sets = [name for kind in kinds for name in kind.sets]
    names = list(dict.fromkeys(name for kind in kinds for name in kind.providers))
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help=f"{', '.join(sets)} (default: {' '.join(RECORD)}, which make the record)",
    )
    parser.add_argument("--list", action="store_true", help="say what would be measured")
    parser.add_argument(
        "--providers",
        nargs="+",
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
    parser.add_argument("--minutes", type=float, default=60.0, help="start no case after these")
    parser.add_argument(
        "--out", type=Path, help="folder for the results; tables of README are then left alone"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.what if name not in sets]  # nargs="*" spoils `choices`
    if unknown:
        parser.error(f"WHAT is {unknown[0]!r}; accepted: {', '.join(sets)}")
    options.what = options.what or RECORD
    return options


def _why_not_here() -> str:
    if not torch.cuda.is_available():
        return "There is no CUDA GPU here to measure on."
    if interpreter_is_on():
        return (
            f"TRITON_INTERPRET is {os.environ['TRITON_INTERPRET']}: Triton's interpreter runs "
            "kernels on the CPU, whose time says nothing about a GPU. Unset it."
        )
    return ""


if __name__ == "__main__":
    sys.exit(main())
