"""Is it right, then how long: each case, every provider in turn.

A provider whose first call is further from fp64 than rounding explains is not timed.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

import torch

from benchmarks.case import Case
from benchmarks.instruments import GPU
from benchmarks.measure import allowed_error, first_line
from benchmarks.peers.cases import FORWARD_AND_BACKWARD
from benchmarks.peers.peer import Peer
from benchmarks.providers.base import Provider, Run
from benchmarks.rows import LIMITS
from benchmarks.workload import Workload


@dataclass
class Found:
    """What a run has found out so far."""

    rows: list[dict] = field(default_factory=list)
    left_out: list[dict] = field(default_factory=list)


def make_ready(providers: Iterable[Provider]) -> dict[str, str]:
    """Compile and import the peers, several at a time; why the absent ones are absent."""
    providers = list(providers)
    with ThreadPoolExecutor() as pool:
        reasons = pool.map(_why_absent, providers)
    return {p.name: why for p, why in zip(providers, reasons, strict=True) if why}


def measure_cases(
    cases: Iterable[Case],
    providers: Iterable[Provider],
    instruments: GPU,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
    after_each: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Check and time the providers on each case; the limit has to be among them."""
    found, providers = Found(), list(providers)
    for case in cases:
        say(case.label)
        torch._dynamo.reset()  # else torch.compile compiles the second shape for all sizes
        workload = Workload(case, instruments.device)
        for direction in FORWARD_AND_BACKWARD:
            _one_direction(workload, direction, providers, instruments, found, say)
        instruments.free()
        after_each(found)
    return found


def _why_absent(provider: Provider) -> str:
    if isinstance(provider, Peer):
        missing = provider.source.missing()
        if missing:
            return f"not unpacked: {', '.join(missing)}"
        try:
            provider.calls  # noqa: B018  (compiles or imports it)
        except Exception as failure:  # of whatever kind: the others are measured all the same
            return first_line(failure)
    return "not installed" if provider.version() is None else ""


def _one_direction(
    workload: Workload,
    direction: str,
    providers: list[Provider],
    instruments: GPU,
    found: Found,
    say: Callable[[str], None],
) -> None:
    about = {"shape": workload.case.label, "direction": direction}
    runs, facts = {}, {}
    for provider in providers:
        why, failed = provider.cannot(workload.case, direction), False
        if not why:
            try:
                run, why, facts[provider.name] = _checked(workload, provider, direction)
            except Exception as failure:  # as above
                why = first_line(failure)
            failed = bool(why)
        if why:
            found.left_out.append(about | {"provider": provider.name, "why": why, "failed": failed})
            if failed:
                say(f"    {direction:9} {provider.name:26} FAILED: {why}")
        else:
            runs[provider.name] = run
    timings = instruments.device_time({name: run.call for name, run in runs.items()})
    limit = next(timings[name].median_us for name in LIMITS if name in timings)
    for name, timing in timings.items():
        row = about | {"provider": name} | asdict(timing) | facts[name] | {"how": runs[name].how}
        row |= {"of_copy": round(limit / timing.median_us, 4), "bytes": workload.case.bytes_moved}
        found.rows.append(row)
        error = "" if row["error"] is None else f"error {row['error']:.1e}"
        say(
            f"    {direction:9} {name:26} {timing.median_us:9.1f} us {row['of_copy']:6.1%}  {error}"
        )


def _checked(workload: Workload, provider: Provider, direction: str) -> tuple[Run, str, dict]:
    """What to time; why it must not be timed, or ''; and its errors."""
    run = provider.run(workload, provider.function(workload), direction)
    results = run.call()
    if run.layout is None:  # a limit rotates nothing
        return run, "", {"error": None, "max_error": None}
    errors = workload.errors(results, run.layout, direction)
    limit = allowed_error(workload.case, provider.name)
    right = errors.relative <= limit  # not if it is NaN
    why = "" if right else f"wrong: error {errors.relative:.2g} against fp64, {limit:.2g} allowed"
    rounded = {
        "error": float(f"{errors.relative:.3g}"),
        "max_error": float(f"{errors.largest:.3g}"),
    }
    return run, why, rounded
