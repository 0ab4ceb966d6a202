"""Time two checkouts in turns on one GPU; print a table, write JSON.

    python tools/compare_speed.py OLD NEW --rounds 7 -o speed.json
    taskset -c 5 python tools/compare_speed.py OLD NEW --clock host    # on one core: less scatter
    python tools/compare_speed.py OLD NEW --only norm_rope             # the calls with a norm
    python tools/compare_speed.py OLD NEW --dry-run       # no GPU: each call once, no times

For each call of `calls/timed.py` old and new take turns, and the one that begins changes every
round, so what drifts (clocks, temperature) drifts for both. A figure is the median of the rounds.

The clocks are those of `rope_lab/timing.py`. Device time has no host time in it, and inputs come
from memory. Host time is what the CPU needs to queue one call on a tiny tensor, the GPU being idle;
a round is the lowest mean of several runs of `--calls` calls, for what disturbs a CPU only adds.

Bars: device time within 1 %; host time within 3 % or 0.5 us. Faster is always fine. The column
"spread" is the scatter of the old checkout's rounds: where it is wider than the bar, and the
verdict "SLOWER", repeat the call with `--only` and more rounds. Exit status: 0 all bars hold,
1 a bar is missed, 2 a process died.
"""

import argparse
import datetime
import inspect
import json
import platform
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from calls.make import QuickMaker, arguments_of
from calls.timed import Timed, timed_calls
from two_checkouts import Checkout, parser_of

DEVICE_SHARE, HOST_SHARE, HOST_US = 0.01, 0.03, 0.5
HOST_RUNS = 5

# --- in the process of a checkout ----------------------------------------------------------------


def ready(timed: Timed, device: str) -> Callable[[], object]:
    """A function without arguments that does what is timed, on tensors made here."""
    import torch

    import rope_kernels

    torch.manual_seed(20261120)
    call, make = timed.call, QuickMaker(0, 0, device)
    function, made = getattr(rope_kernels, call.function), arguments_of(call, rope_kernels, make)
    arguments, options = made.given(rope_kernels, made.tensors)
    usual = inspect.signature(function).parameters
    options = {name: x for name, x in options.items() if x is not usual[name].default}
    if timed.part == "forward":

        def forward() -> object:
            with torch.no_grad():
                return function(*arguments, **options)

        return forward
    leaves = [x.requires_grad_() for x in (*made.tensors, *made.weights)]
    grads = [make.normal(t.shape, call.dtype) for t in made.tensors]
    if timed.part == "recorded":
        return lambda: function(*arguments, **options)
    if timed.part == "both":
        return lambda: torch.autograd.grad(function(*arguments, **options), leaves, grads)
    outs = function(*arguments, **options)
    return lambda: torch.autograd.grad(outs, leaves, grads, retain_graph=True)


class Stopwatch:
    """Answers questions: prepares a call, and times it as often as it is asked."""

    def __init__(self) -> None:
        self.call = None

    def answer(self, question: dict) -> float | str | dict:
        dry, timed = question["dry_run"], timed_calls().get(question.get("name"))
        if timed is None:
            return about()
        if question["prepare"]:
            self.call = None  # gives back the memory of the one before
            self.call = ready(timed.shrunk, "cpu") if dry else ready(timed, "cuda")
            return "ready"
        if dry:
            self.call()
            return 0.0
        from rope_lab.timing import measure, measure_host

        if timed.clock == "device":
            return measure({"": self.call}, rounds=1)[""].median_us
        return measure_host({"": self.call}, HOST_RUNS, question["calls"])[""].low_us


answer = Stopwatch().answer


def about() -> dict[str, str]:
    """What the times are of."""
    import torch
    import triton

    has_gpu = torch.cuda.is_available()
    found = {"gpu": torch.cuda.get_device_name() if has_gpu else "none: there are no times"}
    driver = Path("/proc/driver/nvidia/version")
    words = driver.read_text().split() if driver.exists() else []
    numbers = [word for word in words if word[:1].isdigit() and word.count(".") in (1, 2)]
    found |= {"torch": torch.__version__, "triton": triton.__version__}
    return found | {"driver": (numbers or ["unknown"])[0], "python": platform.python_version()}


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
        f"{row['call']:46} {row['old_us']:9.2f} {row['new_us']:9.2f} {row['ratio']:7.4f} "
        f"{row['spread']:7.2%}  {row['verdict']}"
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
                side: stack.enter_context(Checkout(folder, "compare_speed", options.dry_run))
                for side, folder in (("old", options.old), ("new", options.new))
            }
            found = checkouts["old"].ask(**more)
            print(", ".join(f"{name} {words}" for name, words in found.items()))
            print(f"{'median of rounds, in us':46} {'old':>9} {'new':>9}   ratio  spread  verdict")
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
        found |= {"date": datetime.date.today().isoformat(), "rounds": options.rounds}
        Path(options.output).write_text(json.dumps(found | {"rows": rows}, indent=1) + "\n")
    return int(bool(slower))


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000, help="calls a run of the host's clock")
    parser.add_argument("--only", default="", help="only calls whose name contains this text")
    parser.add_argument("--clock", choices=("device", "host"), help="only the calls timed by it")
    parser.add_argument("-o", "--output", help="JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="no GPU: each call once, no times")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
