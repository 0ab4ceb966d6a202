"""One case after the other, every provider on it in turn: is it right, how long, how much memory.

A provider's first call is compared with fp64; what is measured follows. Who is not installed, has
no such call, or fails, is left out with the reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace

import torch

from benchmarks.bars import ON_THE_FLY
from benchmarks.case import Case, Group
from benchmarks.instruments import GPU
from benchmarks.providers import LIMITS, OURS, PROVIDERS
from benchmarks.providers.base import Provider, Run
from benchmarks.workload import Workload

# relative error of one rounding of normally distributed values, a little more than measured
_ROUNDING = {"bfloat16": 1.75e-3, "float16": 2.2e-4, "float32": 2e-7, "float64": 1e-15}
_SCATTER = 5 * 0.9  # standard deviations of that error, as a share of it, of one element
_FP32_ANGLE = 1e-8  # a position: what the fp32 product of position and frequency may lose

_LATE = "no time left"
_COMPILERS = ("torch.compile", "Hugging Face, compiled")
_SECONDS = {"run": 0.25, "compile": 2.5, "case": 1.5}  # guesses, on an H200


@dataclass
class Results:
    """What a run has found out so far."""

    rows: list[dict] = field(default_factory=list)
    left_out: list[dict] = field(default_factory=list)


def measure_groups(
    sets: dict[str, Iterable[Group]],
    instruments: GPU,
    beside: Iterable[str] | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
    after_each: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Measure every case of every group, beside the providers of the group, or those named."""
    results = Results()
    todo = [(name, group, case) for name, groups in sets.items() for group in groups
            for case in group.cases]  # fmt: skip
    for number, (set_name, group, case) in enumerate(todo, start=1):
        about = {"set": set_name, "group": group.title, "shape": case.label}
        if out_of_time():
            results.left_out.append(
                about | {"direction": "", "provider": "everybody", "why": _LATE, "failed": True}
            )
            say(f"[{number}/{len(todo)}] {case.label}: left out, {_LATE}")
            continue
        say(f"[{number}/{len(todo)}] {set_name}: {case.label}")
        one_case = _OneCase(about, group, case, instruments, say, results)
        one_case.measure([PROVIDERS[name] for name in names_of(group, beside)])
        after_each(results)
    return results


def names_of(group: Group, beside: Iterable[str] | None = None) -> list[str]:
    """Providers of a group in their order: limits and rope_kernels always."""
    wanted = {*LIMITS, OURS, *(group.beside if beside is None else beside)}
    return [name for name in PROVIDERS if name in wanted]


def estimate_seconds(
    sets: dict[str, Iterable[Group]], beside: Iterable[str] | None = None
) -> float:
    """About how long a run takes: measurements, what torch.compile compiles, and each case."""
    total = 0.0
    for group in (group for groups in sets.values() for group in groups):
        for case in group.cases:
            total += _SECONDS["case"]
            for name in names_of(group, beside):
                provider = PROVIDERS[name]
                runs = [d for d in group.directions if not provider.cannot(case, d)]
                if provider.version() is None:
                    continue
                total += _SECONDS["run"] * len(runs)
                if name in _COMPILERS:  # once without a gradient, once with
                    graphs = {direction == "forward" for direction in runs}
                    total += _SECONDS["compile"] * len(graphs)
    return total


def allowed_error(case: Case, provider: str) -> float:
    """How far from fp64 a provider may be and still be right.

    Ours rounds once. Others round tables, products and sums. The error of few elements scatters, by
    the root of their number. All but the angles on the fly lose what fp32 loses of a position's
    angle.
    """
    ours = provider in (OURS, ON_THE_FLY)
    on_the_fly = provider == ON_THE_FLY or (provider == OURS and case.freqs == "module")
    largest = case.s + (4096 if case.positions == "starts" else 0)
    roundings = 1 if ours else 3
    rounded = roundings * _ROUNDING[case.dtype] * (1 + _SCATTER / case.elements**0.5)
    return rounded + (0 if on_the_fly else _FP32_ANGLE * largest)


@dataclass
class _OneCase:
    about: dict
    group: Group
    case: Case
    instruments: GPU
    say: Callable[[str], None]
    results: Results

    def measure(self, providers: list[Provider]) -> None:
        torch._dynamo.reset()  # see providers/pytorch.py
        workload = Workload(self.case, self.instruments.device)
        functions = {}
        for provider in providers:
            if provider.version() is None:
                self._leave_out(provider, "", "not installed")
            elif all(provider.cannot(self.case, d) for d in self.group.directions):
                why = provider.cannot(self.case, self.group.directions[0])
                if not why.startswith(("a limit", "that is")):
                    self._leave_out(provider, "", why)
            else:
                found = self._try(provider, "", lambda p=provider: (p.function(workload),))
                if found:
                    functions[provider] = found[0]
        for direction in self.group.directions:
            self._one_direction(workload, direction, functions)
        self.instruments.free()

    def _one_direction(self, workload: Workload, direction: str, functions: dict) -> None:
        runs, facts = {}, {}
        for provider, function in functions.items():
            why = provider.cannot(self.case, direction)
            if why:
                self._leave_out(provider, direction, why)
                continue

            def prepare(provider=provider, function=function):
                run = provider.run(workload, function, direction)
                return self._check_and_weigh(workload, provider, run, direction)

            prepared = self._try(provider, direction, prepare)
            if prepared:
                runs[provider.name], facts[provider.name] = prepared
        calls = {name: run.call for name, run in runs.items()}
        try:
            timings, host = self._times(calls)
        except RuntimeError as failure:
            self._leave_out(None, direction, f"{failure}"[:200], True)
            return
        limit = next(timings[name].median_us for name in LIMITS if name in timings)
        for name, timing in timings.items():
            row = self.about | {"direction": direction, "provider": name} | asdict(timing)
            row |= facts[name] | {"host_us": host[name].median_us, "how": runs[name].how}
            row |= {"bytes": self.case.bytes_moved * (2 if direction == "both" else 1)}
            bar = self.group.bar(direction) if name == OURS else None
            row |= {"bar": asdict(bar) if bar else None, "in_readme": self.group.in_readme}
            self.results.rows.append(row | self.case.fields())
            self.say(_line(row, limit))

    def _times(self, calls: dict[str, Callable]) -> tuple[dict, dict]:
        """By the case's clock, and on the host."""
        if self.case.clock == "host":
            timings = self.instruments.host_time(calls)
            return timings, timings
        return self.instruments.device_time(calls), self.instruments.host_time_of_large(calls)

    def _check_and_weigh(
        self, workload: Workload, provider: Provider, run: Run, direction: str
    ) -> tuple[Run, dict]:
        """The first call against fp64; another one's memory. A graph's replay is checked too."""
        error = allowed = None
        results = run.call()
        if run.layout is not None:
            allowed = allowed_error(self.case, provider.name)
            error = workload.errors(results, run.layout, direction).relative
        del results
        peak = self.instruments.peak_bytes(run.call)
        if self.case.clock == "replay":
            replay, outputs = self.instruments.captured(run.call)
            if run.layout is not None:
                again = self._error_of_replay(workload, run, replay, outputs, direction)
                error = max(error, again) if again == again else again  # NaN stays
            run = replace(run, call=replay)
        right = error is None or error <= allowed  # not if it is NaN
        error = None if error is None else float(f"{error:.3g}")
        return run, {"error": error, "right": right, "peak_bytes": peak}

    def _error_of_replay(
        self, workload: Workload, run: Run, replay: Callable, outputs: tuple, direction: str
    ) -> float:
        """With NaN where the results go, which a graph without its rotation leaves there."""
        fresh = workload.take(workload.x, run.layout) if run.overwrites else ()
        for out in outputs:
            out.fill_(float("nan"))
        for t, value in zip(run.overwrites, fresh, strict=True):
            t.copy_(value)
        replay()
        return workload.errors(outputs, run.layout, direction).relative

    def _try(self, provider: Provider, direction: str, make: Callable):
        try:
            return make()
        except Exception as failure:  # of whatever kind: the others are measured all the same
            self._leave_out(provider, direction, first_line(failure), True)
            return None

    def _leave_out(
        self, provider: Provider | None, direction: str, why: str, failed: bool = False
    ) -> None:
        name = provider.name if provider else "everybody"
        about = {"direction": direction, "provider": name, "why": why, "failed": failed}
        self.results.left_out.append(self.about | about)
        if failed:
            self.say(f"    {direction:14} {name:24} FAILED: {why}")


def first_line(failure: Exception) -> str:
    """What a failure says, in one line of at most some 300 characters."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0][:300]}"


def _line(row: dict, limit: float) -> str:
    error = "" if row["error"] is None else f"error {row['error']:.1e}"
    flag = "" if row["right"] else "  WRONG"
    return (
        f"    {row['direction']:14} {row['provider']:24} {row['median_us']:9.1f} us "
        f"{limit / row['median_us']:6.1%}  host {row['host_us']:7.1f} us  {error}{flag}"
    )
