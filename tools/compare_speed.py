"""Time two checkouts in turns on one GPU; print a table, write JSON.

    python tools/compare_speed.py OLD NEW --rounds 7 -o speed.json
    taskset -c 5 python tools/compare_speed.py OLD NEW --clock host    # on one core: less scatter
    python tools/compare_speed.py OLD NEW --only norm_rope             # the calls with a norm
    python tools/compare_speed.py OLD NEW --dry-run       # no GPU: each call once, no times

The calls are our own of the benchmark, and tiny ones for the host's time. Both checkouts
make those of the benchmark beside this file. For each call old and new take turns, and the one that
begins changes every round, so what drifts (clocks, temperature) drifts for both. A figure is the
median of the rounds.

The clocks are those of `rope_lab/timing.py`. Device time has no host time in it, and inputs come
from memory. Host time is what the CPU needs to queue one call on a tiny tensor, the GPU being idle;
a round is the lowest mean of several runs of `--calls` calls, for what disturbs a CPU only adds.

Bars: device time within 1 %; host time within 3 % or 0.5 us. Faster is always fine. The column
"spread" is the scatter of the old checkout's rounds: where it is wider than the bar, and the
verdict "SLOWER", repeat the call with `--only` and more rounds. Exit status: 0 all bars hold,
1 a bar is missed, 2 a process died.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from two_checkouts import Checkout  # it names the folder that has the benchmark

# isort: split
from benchmarks import sets
from benchmarks.case import ON_THE_FLY, OURS, Case
from benchmarks.provider import Provider
from benchmarks.providers import NORMS, PROVIDERS
from benchmarks.providers.norm import OURS as NORM_OURS
from benchmarks.workload import Workload

DEVICE_SHARE, HOST_SHARE, HOST_US = 0.01, 0.03, 0.5
HOST_RUNS = 5
TINY = Case(64, 1, 16, 64, clock="host")
TINY_PAIR = replace(TINY, k_heads=4)
TINY_CALLS = (
    TINY,
    replace(TINY, freqs="cos and sin"),
    replace(TINY, inplace=True),
    replace(TINY, tensor_format="bshd", positions="ids"),
    replace(TINY, tensor_format="thd", sequences=4),
    TINY_PAIR,
    replace(TINY_PAIR, inplace=True),
)
TINY_NORMS = tuple(
    replace(TINY_PAIR, freqs="module", tensor_format=tensor_format, cu_seqlens=cuts)
    for tensor_format, cuts in (("sbhd", ()), ("bhsd", ()), ("thd", (0, 16, 32, 48, 64)))
)


@dataclass(frozen=True)
class Timed:
    """A call, and who makes it."""

    provider: Provider
    case: Case
    direction: str

    @property
    def name(self) -> str:
        return f"{self.provider.name}, {self.case.label}, {self.direction}"

    @property
    def clock(self) -> str:
        return "host" if self.case.clock == "host" else "device"

    @property
    def shrunk(self) -> "Timed":
        """The same for the interpreter."""
        sizes = {"s": 4, "b": 1, "h": 2, "d": 16, "k_heads": min(1, self.case.k_heads)}
        case = replace(self.case, **sizes, rotary_dim=8 if self.case.rotary_dim else 0)
        if case.tensor_format == "thd":
            case = replace(case, cu_seqlens=(0, 2, 4))
        return replace(self, case=case)


def timed_calls() -> dict[str, Timed]:
    """All of them by name."""
    return {timed.name: timed for timed in (*_rotations(), *_norms())}


def _rotations() -> Iterator[Timed]:
    of_the_calls = [case for group in sets.CALLS for case in group.cases if case.clock == "device"]
    for case in (*of_the_calls, *TINY_CALLS):
        directions = "forward", "backward"
        if case.clock == "host":
            directions = *directions, "forward, grad", "both"
        for name in (OURS, ON_THE_FLY):
            for direction in directions:
                if not PROVIDERS[name].cannot(case, direction):
                    yield Timed(PROVIDERS[name], case, direction)


def _norms() -> Iterator[Timed]:
    for case in (*(case for group in sets.NORM for case in group.cases), *TINY_NORMS):
        for provider in NORM_OURS:
            for direction in ("forward", "backward"):
                yield Timed(NORMS[provider.name], case, direction)


# --- in the process of a checkout ----------------------------------------------------------------


class Stopwatch:
    """Answers questions: prepares a call, and times it as often as it is asked."""

    def __init__(self) -> None:
        self.call = None

    def answer(self, question: dict) -> float | str | dict:
        from rope_lab.records import circumstances
        from rope_lab.timing import measure, measure_host

        dry, timed = question["dry_run"], timed_calls().get(question.get("name"))
        if timed is None:
            return circumstances()
        if question["prepare"]:
            self.call = None  # gives back the memory of the one before
            timed = timed.shrunk if dry else timed
            workload = Workload(timed.case, "cpu" if dry else "cuda")
            function = timed.provider.function(workload)
            self.call = timed.provider.run(workload, function, timed.direction).call
            return "ready"
        if dry:
            self.call()
            return 0.0
        if timed.clock == "device":
            return measure({"": self.call}, rounds=1)[""].median_us
        return measure_host({"": self.call}, HOST_RUNS, question["calls"])[""].low_us


answer = Stopwatch().answer


# --- the process that asks -----------------------------------------------------------------------


def time_call(
    name: str, checkouts: dict[str, Checkout], rounds: int, **more
) -> dict[str, list[float]]:
    """Times of each round, in microseconds, after one round that does not count."""
    taken = {side: [] for side in checkouts}
    for checkout in checkouts.values():
        checkout.ask(name=name, prepare=True, **more)
    for number in range(rounds + 1):
        for side in sorted(checkouts, reverse=bool(number % 2)):
            taken[side].append(checkouts[side].ask(name=name, prepare=False, **more))
    return {side: times[1:] for side, times in taken.items()}


def verdict(clock: str, old: float, new: float) -> str:
    """Does the new time keep the bar?"""
    allowed = DEVICE_SHARE * old if clock == "device" else max(HOST_SHARE * old, HOST_US)
    if new - old > allowed:
        return "SLOWER"
    return "faster" if old - new > allowed else "same"


def row_of(name: str, clock: str, times: dict[str, list[float]]) -> dict:
    """One line of the table, with every round."""
    old, new = (statistics.median(times[side]) for side in ("old", "new"))
    return {
        "call": name,
        "clock": clock,
        "old_us": round(old, 3),
        "new_us": round(new, 3),
        "ratio": round(new / old, 4) if old else 1.0,
        "spread": round((max(times["old"]) - min(times["old"])) / old, 4) if old else 0.0,
        "verdict": verdict(clock, old, new),
        "rounds": times,
    }


def line_of(row: dict) -> str:
    """The same as text."""
    return (
        f"{row['old_us']:9.2f} {row['new_us']:9.2f} {row['ratio']:7.4f} "
        f"{row['spread']:7.2%}  {row['verdict']:7} {row['call']}"
    )


def main() -> int:
    options = _options()
    calls = {
        name: timed
        for name, timed in timed_calls().items()
        if options.only in name and options.clock in (None, timed.clock)
    }
    more, rows = {"dry_run": options.dry_run, "calls": options.calls}, []
    try:
        with ExitStack() as stack:
            checkouts = {
                side: stack.enter_context(Checkout(folder, options.dry_run))
                for side, folder in (("old", options.old), ("new", options.new))
            }
            found = checkouts["old"].ask(**more)
            print(found)
            print(f"{'old':>9} {'new':>9}   ratio  spread  medians of rounds, in us")
            for name, timed in calls.items():
                times = time_call(name, checkouts, options.rounds, **more)
                rows.append(row_of(name, timed.clock, times))
                print(line_of(rows[-1]), flush=True)
    except RuntimeError as died:
        print(died, file=sys.stderr)
        return 2
    slower = [row["call"] for row in rows if row["verdict"] == "SLOWER"]
    print(f"{len(rows) - len(slower)} of {len(rows)} calls keep their bar")
    if options.output:
        found |= {"rounds": options.rounds, "rows": rows}
        Path(options.output).write_text(json.dumps(found, indent=1) + "\n")
    return int(bool(slower))


def _options() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("old", help="folder that holds rope_kernels/ and rope_lab/")
    parser.add_argument("new", help="another one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000, help="calls a run of the host's clock")
    parser.add_argument("--only", default="", help="only calls whose name contains this text")
    parser.add_argument("--clock", choices=("device", "host"), help="only the calls timed by it")
    parser.add_argument("-o", "--output", help="JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="no GPU: each call once, no times")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
