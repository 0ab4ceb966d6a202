"""Measure one case with all providers: errors and times.

A provider's first call is compared with fp64. A provider that doesn't support the case, is wrong or
fails is left out, and the record says why.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import torch

from benchmarks.case import LIMITS, Case, Group, Row
from benchmarks.gpu import GPU
from benchmarks.provider import Provider, Run, first_line
from benchmarks.row_inputs import RowInputs
from benchmarks.workload import Workload

EVERYBODY = "everybody"  # the name in a record if all providers are left out


class Wrong(Exception):
    """A result whose error is larger than rounding explains."""


@dataclass
class OneCase:
    """A case of a group. `measure` collects its rows, and the providers that are left out."""

    group: Group
    case: Case | Row
    gpu: GPU
    rows: list[dict] = field(default_factory=list)
    left_out: list[dict] = field(default_factory=list)

    def measure(self, providers: list[Provider]) -> None:
        """Check and time every direction."""
        torch._dynamo.reset()  # `compiled` in providers/installed.py says why.
        make = RowInputs if isinstance(self.case, Row) else Workload
        workload, functions = make(self.case, self.gpu.device), {}
        for provider in providers:
            why = [provider.cannot(self.case, d) for d in self.group.directions]
            if not all(why):
                self._try(provider, "", lambda p=provider: p.function(workload), functions)
            elif not why[0].startswith(("a limit", "that is")):
                self._leave_out(provider.name, "", why[0])
        for direction in self.group.directions:
            self._one_direction(workload, direction, functions)
        self.gpu.free()

    def _one_direction(
        self, workload: Workload | RowInputs, direction: str, functions: dict[Provider, Callable]
    ) -> None:
        checked: dict[Provider, tuple[Run, float | None]] = {}
        for provider, function in functions.items():
            if why := provider.cannot(self.case, direction):
                self._leave_out(provider.name, direction, why)
                continue
            call = workload, provider, function, direction
            self._try(provider, direction, lambda call=call: self._checked(*call), checked)
        calls = {provider.name: run.call for provider, (run, _) in checked.items()}
        try:
            timings = self.gpu.in_turns(calls, self.case.clock)
        except RuntimeError as failure:
            self._leave_out(EVERYBODY, direction, first_line(failure), failed=True)
            return
        limit = next(timings[name].median_us for name in LIMITS if name in timings)
        for provider, (run, error) in checked.items():
            timing = timings[provider.name]
            row = {"shape": self.case.label, "direction": direction, "provider": provider.name}
            copies = 1 if provider.name in LIMITS else self.case.copies
            share = copies * limit / timing.median_us
            row |= asdict(timing) | {"of_limit": round(share, 4), "how": run.how}
            if isinstance(self.case, Row):
                row["own_limit"] = round(self.case.own_limit, 4)
            self.rows.append(row | {"error": error and float(f"{error:.3g}")})
            print(_line(self.rows[-1]), flush=True)

    def _checked(
        self,
        workload: Workload | RowInputs,
        provider: Provider,
        function: Callable,
        direction: str,
    ) -> tuple[Run, float | None]:
        """The call to time, and the error of its first results."""
        run = provider.run(workload, function, direction)
        if run.layout is None:
            return run, None  # A limit doesn't rotate, so there is nothing to check.
        error = provider.error(workload, run.call(), run.layout, direction)
        allowed = provider.allowed_error(self.case)
        if not error <= allowed:  # also true for NaN
            raise Wrong(f"error {error:.2g} against fp64, {allowed:.2g} allowed")
        return run, error

    def _try(self, provider: Provider, direction: str, make: Callable, made: dict) -> None:
        try:
            made[provider] = make()
        except Exception as failure:  # The other providers are measured anyway.
            self._leave_out(provider.name, direction, first_line(failure), failed=True)

    def _leave_out(self, name: str, direction: str, why: str, failed: bool = False) -> None:
        """Record why a provider has no row."""
        place = {"shape": self.case.label, "direction": direction, "provider": name}
        self.left_out.append(place | {"why": why, "failed": failed})
        if failed:
            print(f"    {direction:14} {name:33} FAILED: {why}", flush=True)


def _line(row: dict) -> str:
    said = "" if row["error"] is None else f"error {row['error']:.1e}"
    times = f"{row['median_us']:9.1f} us {row['of_limit']:6.1%}"
    return f"    {row['direction']:14} {row['provider']:33} {times}  {said}"
