"""One case, every provider on it in turn: is it right, how long, how much memory.

A provider's first call is compared with fp64; what is measured follows. Who has no such call, or
fails, is left out with the reason.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch

from benchmarks.case import LIMITS, Case, Group
from benchmarks.gpu import GPU
from benchmarks.kind import Checked, Kind, Measured
from benchmarks.provider import Provider, Run, first_line
from benchmarks.workload import Workload

EVERYBODY = "everybody"  # where nobody in particular is left out


@dataclass
class OneCase:
    """A case, measured beside several providers; `found` gets its rows, and who was left out."""

    kind: Kind
    set_name: str
    group: Group
    case: Case
    gpu: GPU
    found: dict[str, list[dict]]

    @property
    def place(self) -> dict:
        """The first fields of its rows."""
        return self.kind.place(self.set_name, self.group, self.case)

    def measure(self, providers: list[Provider]) -> None:
        """Check and time every direction."""
        torch._dynamo.reset()  # see providers/pytorch.py
        workload = Workload(self.case, self.gpu.device)
        functions = {}
        for provider in providers:
            if all(provider.cannot(self.case, d) for d in self.group.directions):
                why = provider.cannot(self.case, self.group.directions[0])
                if not why.startswith(("a limit", "that is")):
                    self.leave_out(provider.name, "", why)
            else:
                found = self._try(provider, "", lambda p=provider: (p.function(workload),))
                if found:
                    functions[provider] = found[0]
        for direction in self.group.directions:
            self._one_direction(workload, direction, functions)
        self.gpu.free()

    def leave_out(self, name: str, direction: str, why: str, failed: bool = False) -> None:
        """Say why a provider has no row."""
        about = {"direction": direction, "provider": name, "why": why, "failed": failed}
        self.found["left_out"].append(self.place | about)
        if failed:
            print(f"    {direction:14} {name:33} FAILED: {why}", flush=True)

    def _one_direction(self, workload: Workload, direction: str, functions: dict) -> None:
        checked: dict[str, Checked] = {}
        for provider, function in functions.items():
            why = provider.cannot(self.case, direction)
            if why:
                self.leave_out(provider.name, direction, why)
                continue
            check = partial(self._checked, workload, provider, function, direction)
            found = self._try(provider, direction, check)
            if found:
                checked[provider.name] = found
        try:
            timings, host = self._times({name: one.run.call for name, one in checked.items()})
        except RuntimeError as failure:
            self.leave_out(EVERYBODY, direction, f"{failure}"[:200], failed=True)
            return
        limit = next(timings[name] for name in LIMITS if name in timings)
        for name, one in checked.items():
            measured = Measured(
                *(self.group, self.case, direction, name, one, timings[name]),
                limit_us=limit.median_us,
                host_us=host[name].median_us,
            )
            row = self.place | {"direction": direction, "provider": name}
            self.found["rows"].append(row | asdict(measured.timing) | self.kind.facts(measured))
            print(_line(measured), flush=True)

    def _times(self, calls: dict[str, Callable]) -> tuple[dict, dict]:
        """By the case's clock, and on the host."""
        if self.case.clock == "host":
            timings = self.gpu.host_time(calls)
            return timings, timings
        return self.gpu.device_time(calls), self.gpu.host_time_of_large(calls)

    def _checked(
        self, workload: Workload, provider: Provider, function: Callable, direction: str
    ) -> Checked | None:
        """The first call against fp64; another one's memory. A graph's replay is checked too.

        None: it is wrong, and wrong results are not timed.
        """
        run = provider.run(workload, function, direction)
        error = None  # a limit rotates nothing
        if run.layout is not None:
            error = provider.error(workload, run.call(), run.layout, direction)
            if not self._is_right(provider, error, direction):
                return None
        peak = self.gpu.peak_bytes(run.call)
        if self.case.clock == "replay":
            captured = self.gpu.captured(run.call)
            if run.layout is not None:
                again = self._error_of_replay(provider, workload, run, captured, direction)
                if not self._is_right(provider, again, direction):
                    return None
                error = max(error, again)
            run = replace(run, call=captured[0])
        return Checked(run, error, peak)

    def _is_right(self, provider: Provider, error: float, direction: str) -> bool:
        allowed = provider.allowed_error(self.case)
        if error <= allowed:  # not if it is NaN
            return True
        why = f"wrong: error {error:.2g} against fp64, {allowed:.2g} allowed"
        self.leave_out(provider.name, direction, why, failed=True)
        return False

    def _error_of_replay(
        self, provider: Provider, workload: Workload, run: Run, captured: tuple, direction: str
    ) -> float:
        """With NaN where the results go, which a graph without its rotation leaves there."""
        replay, outputs = captured
        fresh = workload.take(workload.x, run.layout) if run.overwrites else ()
        for out in outputs:
            out.fill_(float("nan"))
        for t, value in zip(run.overwrites, fresh, strict=True):
            t.copy_(value)
        replay()
        return provider.error(workload, outputs, run.layout, direction)

    def _try(self, provider: Provider, direction: str, make: Callable):
        try:
            return make()
        except Exception as failure:  # of whatever kind: the others are measured all the same
            self.leave_out(provider.name, direction, first_line(failure), failed=True)
            return None


def _line(measured: Measured) -> str:
    us, error = measured.timing.median_us, measured.checked.error
    said = "" if error is None else f"error {error:.1e}"
    return (
        f"    {measured.direction:14} {measured.provider:33} {us:9.1f} us "
        f"{measured.limit_us / us:6.1%}  host {measured.host_us:7.1f} us  {said}"
    )
