"""Check and time every peer that is there, beside ours, and write a record.

python -m benchmarks.peers.sources --clone          # once, where there is a network
python -m benchmarks.peers --output results.json    # on the GPU machine
python -m benchmarks.peers.report results.json      # anywhere
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.__main__ import _why_not_here as why_not_here
from benchmarks.case import Case
from benchmarks.instruments import GPU
from benchmarks.peers.building import nvcc_version
from benchmarks.peers.cases import CASES
from benchmarks.peers.everybody import EVERYBODY
from benchmarks.peers.measuring import Found, make_ready, measure_cases
from benchmarks.peers.peer import Peer
from benchmarks.providers import LIMITS, OURS
from benchmarks.providers.base import Provider
from benchmarks.rows import save

ROUNDS, QUICK_ROUNDS = 5, 2


def main(
    arguments: Sequence[str] | None = None,
    instruments: GPU | None = None,
    cases: Iterable[Case] = CASES,
    everybody: Iterable[Provider] = EVERYBODY,
) -> int:
    """The command; tests hand over instruments that need no GPU, and tiny cases.

    Returns:
        0, or 1 if there is no GPU to measure on, or ours failed or was wrong.
    """
    everybody = list(everybody)
    options = _parser([provider.name for provider in everybody]).parse_args(arguments)
    if instruments is None:
        why = why_not_here()
        if why:
            print(why, file=sys.stderr)
            return 1
        instruments = GPU(rounds=QUICK_ROUNDS if options.quick else ROUNDS)
    wanted = {*LIMITS, *(options.only or [provider.name for provider in everybody])}
    chosen = [provider for provider in everybody if provider.name in wanted]

    begin = time.monotonic()
    absent = make_ready(chosen)
    header = _header(instruments, chosen, absent, options.quick or options.only is not None)
    for name, why in absent.items():
        print(f"absent: {name}: {why}", flush=True)

    def store(found: Found, complete: bool = False) -> None:
        late = {"seconds": round(time.monotonic() - begin, 1), "complete": complete}
        save(options.output, header | late | {"rows": found.rows, "left_out": found.left_out})

    present = [provider for provider in chosen if provider.name not in absent]
    found = measure_cases(cases, present, instruments, after_each=store)
    header["clocks_at_the_end"] = instruments.clocks()
    store(found, complete=True)
    print(f"Written after {time.monotonic() - begin:.0f} s: {options.output}", flush=True)
    failed = [left for left in found.left_out if left["failed"]]
    return 1 if any(left["provider"].startswith(OURS) for left in failed) else 0


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, required=True, help="where to write the record")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, not {ROUNDS}")
    return parser


def _header(
    instruments: GPU, providers: list[Provider], absent: dict[str, str], partial: bool
) -> dict:
    circumstances = instruments.circumstances()
    circumstances["versions"] = circumstances["versions"] | {"nvcc": nvcc_version()}
    return circumstances | {
        "what": "Time in microseconds: on the GPU, L2 flushed, median of "
        f"{instruments.rounds} interleaved rounds",
        "format": 1,
        "record": not partial,
        "clocks": instruments.clocks(),
        "providers": {provider.name: _about(provider, absent) for provider in providers},
    }


def _about(provider: Provider, absent: dict[str, str]) -> dict:
    about = {"measures": "the whole call", "absent": absent.get(provider.name)}
    if not isinstance(provider, Peer):
        return about | {"version": provider.version() or ""}
    about |= {"measures": provider.measures, "repository": provider.source.repository}
    return about | {"revision": provider.source.revision, "built_with": provider.built_with}


if __name__ == "__main__":
    sys.exit(main())
