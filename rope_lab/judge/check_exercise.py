"""Try a reader's function on all cases of a specification.

Each case is an `Attempt` on CPU tensors: Triton's interpreter shows which program stores what, and
stops an access outside the tensors before it happens. If Triton has its compiler, a right candidate
is compiled for an H200 (`refusals.py`). On a machine with a GPU, it then runs there, too: each
address of these launches has been checked by then.
"""

import contextlib
import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from rope_kernels.paths import triton_is_installed

from ..interpreter import run_as_compiled
from ..interpreter.tuners import Tuning
from ..run import Now
from ..standalone import refusal_of_a_candidate
from .attempt import Attempt
from .counts import Counted
from .errors import RESTART
from .guests import MAX_PRINTED, SECONDS, TookTooLong, settled
from .refusals import Noted, launches_noted, note_job, refusal_of
from .spec import MILLION, Case, Spec, spec
from .verdict import NO_EVIDENCE, NOT_YET, RIGHT, WRONG, Cases, Fault, Verdict, printable, raised
from .why import why
from .written import unlike_its_look

MANY_PROGRAMS = 3000  # limit for a large tensor: the interpreter takes a millisecond for each


class Tried(NamedTuple):
    """A verdict, and what a right kernel did with the probe; None without a probe."""

    verdict: Verdict
    counted: Counted | None = None


def check_exercise(
    candidate: Callable, specification: Spec | Callable, *, explain: bool = True
) -> Verdict:
    """Check a function on every case of a specification.

    Args:
        candidate: a function with the specification's arguments, in a notebook or a module. It runs
            here, in the notebook's process, and what it changes there is put back (`guests.py`).
        specification: a `Spec`, or a function whose arguments are annotated with shapes.
        explain: False: the verdict doesn't say why, where finding it is the exercise.

    Raises:
        ValueError: the specification has an argument without a shape.
    """
    verdict = try_on_cases(candidate, spec(specification)).verdict
    return verdict if explain else replace(verdict, evidence=NO_EVIDENCE)


def try_on_cases(
    candidate: Callable, wanted: Spec, *, out: str = "", probe: Case | None = None
) -> Tried:
    """The verdict on a candidate; what it prints is shown.

    Args:
        candidate, wanted: as in `check_exercise`.
        out: the keyword that passes the candidate its first input to overwrite; '' for none.
        probe: a case in which the work of a right candidate is counted.
    """
    if refused := refusal_of_a_candidate(candidate):
        return Tried(Verdict(state=NOT_YET, reason=refused, boxed=True))
    run_as_compiled()
    called = in_place(candidate, out) if out else candidate
    try:
        with settled():
            tried, printed = _tried(called, wanted, probe)
    except (OSError, MemoryError) as error:
        reason = f"this machine stopped the check: {type(error).__name__}: {error}"
        return Tried(Verdict(state=NOT_YET, reason=reason, boxed=True))
    if printed:
        print(printable(printed), end="" if printed.endswith("\n") else "\n")
    verdict = tried.verdict
    if verdict.state == WRONG and (words := unlike_its_look(candidate)):
        verdict = replace(verdict, because="; ".join(filter(None, (verdict.because, words))))
    return Tried(replace(verdict, boxed=True), tried.counted)


def _tried(candidate: Callable, wanted: Spec, probe: Case | None) -> tuple[Tried, str]:
    """The verdict and the counts, and what the candidate printed."""
    counted = None
    with launches_noted() as launches:
        verdict, printed = verdict_on_cases(candidate, wanted)
        if probe and verdict:
            verdict, counted = probed(verdict, candidate, wanted, probe)
    if verdict and triton_is_installed():
        verdict = rehearsed_verdict(verdict, candidate, wanted, launches)
    if verdict and (refusal := refusal_of(launches.values())):
        verdict = replace(verdict, state=WRONG, reason=refusal, remark="")
    if verdict and verdict.cases.launches and Now.device == "cuda":
        kernels = [noted.job.kernel for noted in launches.values()]
        there, printed_there = _tried_on_the_gpu(candidate, wanted, verdict, kernels)
        verdict, printed = there, printed or printed_there
    return Tried(verdict, counted), printed


def _tried_on_the_gpu(
    candidate: Callable, wanted: Spec, verdict: Verdict, kernels: list
) -> tuple[Verdict, str]:
    """The verdict on a candidate that is right in the interpreter, and what it prints there."""
    if verdict.cases.has_locks:
        words = "it does not run on this GPU, where nothing ends a kernel that waits for a lock"
        return replace(verdict, remark="; ".join(filter(None, (verdict.remark, words)))), ""
    from ..compiler.compile_here import forget_compiled

    for kernel in kernels:
        forget_compiled(kernel)
    try:
        torch.cuda.synchronize()  # not every call reports what a kernel before has broken
        compiled, printed = verdict_on_cases(candidate, wanted, "cuda")
    except torch.AcceleratorError as error:
        reason = f"right in the interpreter, and the GPU can't be used: it {raised(error)}"
        return replace(verdict, state=NOT_YET, reason=f"{reason} ({RESTART})", remark=""), ""
    if compiled:
        return verdict, ""
    return replace(compiled, cases=replace(compiled.cases, engine="compiled")), printed


def in_place(candidate: Callable, out: str) -> Callable:
    """The candidate as a function that overwrites its first input, which it also gets as `out`."""
    return lambda first, *others: candidate(first, *others, **{out: first})


def probed(
    verdict: Verdict, candidate: Callable, wanted: Spec, case: Case
) -> tuple[Verdict, Counted | None]:
    """Run a right candidate on one more case, and count its work there; it may be wrong."""
    attempt = Attempt(candidate, wanted, case, earlier=list(verdict.cases.right))
    outcome = attempt.outcome()
    if outcome is None:
        return verdict, attempt.counted()
    outcome = explained(outcome, attempt)
    return replace(outcome, cases=replace(outcome.cases, right=verdict.cases.right)), None


def rehearsed_verdict(
    verdict: Verdict, candidate: Callable, wanted: Spec, jobs: dict[tuple, Noted]
) -> Verdict:
    """The verdict on a right candidate after a rehearsal, whose launches are added to the jobs."""
    from .rehearsal import rehearsed_exercise

    with contextlib.redirect_stdout(io.StringIO()):
        wrong, launches = rehearsed_exercise(candidate, wanted)
    for launch in launches:
        note_job(jobs, launch)
    if not wrong:
        return verdict
    return replace(verdict, state=WRONG, reason=f"right in the interpreter, but {wrong}", remark="")


def verdict_on_cases(candidate: Callable, wanted: Spec, device: str = "cpu") -> tuple[Verdict, str]:
    """The verdict after all cases, and what the candidate printed in the first case with output.

    In the interpreter, an autotuned kernel runs in each of its configurations, because a GPU may
    take any of them.
    """
    if device != "cpu":
        return _verdict_in_a_configuration(0, candidate, wanted, device)
    Tuning.most, number, verdicts = 1, 0, []
    while number < Tuning.most:
        verdict, printed = _verdict_in_a_configuration(number, candidate, wanted, device)
        if verdict.fault != Fault.PASSED_OVER or Tuning.most == 1:
            if not verdict:
                return verdict, printed
            verdicts.append((verdict, printed))
        number += 1
    return verdicts[0] if verdicts else (verdict, printed)


def _verdict_in_a_configuration(
    number: int, candidate: Callable, wanted: Spec, device: str
) -> tuple[Verdict, str]:
    right: list[str] = []
    missed: Attempt | None = None
    wrong: list[Verdict] = []  # the first one is of this attempt
    slow: list[str] = []
    printed, remark, traced = "", "", Traced()
    for case in wanted.cases:
        programs, seconds = traced.estimates_for(wanted, case)
        if case.name == MILLION and traced.launches and not wrong:
            from .rehearsal import programs_of

            programs = programs_of(candidate, wanted, case)  # fewer where each has more to do
        if case.is_large and (wrong or number or programs > MANY_PROGRAMS):
            continue
        if seconds > SECONDS:
            slow.append(case.name)
            continue
        began = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            made = {"device": device, "configuration": number}
            attempt = Attempt(candidate, wanted, case, right, **made)
            outcome = attempt.outcome()
        if said.getvalue() and not printed:
            printed = f"Printed in the case '{case.name}':\n{said.getvalue()[:MAX_PRINTED]}"
        if attempt.refusal is None:
            traced.add(attempt, time.process_time() - began)
        if outcome is None:
            right.append(case.name)
            if not remark and (found := attempt.remark()):
                remark = f"{found} (in the case '{case.name}')"
        elif outcome.state == NOT_YET or _ends_all(outcome):
            return outcome, printed
        else:
            missed = missed or attempt
            wrong.append(outcome)
    if not wrong:
        reason = f"{len(right)} cases: " + ", ".join(right)
        found = {"launches": traced.launches, "has_locks": traced.has_locks}
        cases = Cases(right=tuple(right), **found)
        if slow:
            remark = f"too slow in the interpreter for these cases: {', '.join(slow)}"
        return Verdict(state=RIGHT, reason=reason, remark=remark, cases=cases), printed
    also_wrong = tuple(other.cases.wrong for other in wrong[1:])
    first = explained(wrong[0], missed)
    cases = replace(first.cases, right=tuple(right), also_wrong=also_wrong)
    return replace(first, cases=cases), printed


def _ends_all(outcome: Verdict) -> bool:
    """Whether no other case can be tried, as on a GPU where no call works any more."""
    return outcome.fault in (Fault.PASSED_OVER, Fault.LATE) or RESTART in outcome.reason


@dataclass
class Traced:
    """What is kept from the traces of all cases."""

    launches: int = 0
    has_locks: bool = False
    # the fewest of any case, by element of its first input
    programs: float = math.inf
    seconds: float = math.inf

    def add(self, attempt: Attempt, seconds: float) -> None:
        elements = attempt.given[0].numel()
        self.seconds = min(self.seconds, seconds / elements)
        if attempt.trace is not None:
            self.launches += attempt.trace.launches
            self.has_locks |= bool(attempt.trace.locks)
            self.programs = min(self.programs, len(attempt.trace.programs) / elements)

    def estimates_for(self, wanted: Spec, case: Case) -> tuple[float, float]:
        """How many programs and seconds a case needs at least; 0 if nothing was traced yet."""
        elements = math.prod(wanted.shapes(case)[0])
        return tuple(
            0 if each == math.inf else each * elements for each in (self.programs, self.seconds)
        )


def explained(verdict: Verdict, missed: Attempt) -> Verdict:
    """The verdict on the first wrong case, with evidence if there is any."""
    if verdict.because or missed.device != "cpu":
        return verdict
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return replace(verdict, evidence=why(missed, verdict))
        except (Exception, SystemExit, TookTooLong):  # whatever a reader's function may raise
            return verdict
