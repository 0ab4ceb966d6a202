"""Try a reader's function on all cases of a specification, in a separate process.

A kernel with a wrong index may crash its process; on a GPU, all later CUDA calls fail too. So the
candidate's source, with the source of everything it uses from its notebook, goes to a child process
(`shipment.py`, `child.py`). If that process ends or hangs, the verdict says so. The child runs
Triton's interpreter, which shows which program stored what. Each case is an `Attempt` there. If
Triton has its compiler, a right candidate is compiled for an H200 (`refusals.py`). On a machine
with a GPU, a second child then runs the candidate with compiled kernels.
"""

import contextlib
import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from ..child import Ended, Worker
from ..compiler.compile import DidNotFinish
from ..compiler.launches import interprets
from ..interpreter.tuners import Tuning
from ..shipment import CannotPassOn, Shipped
from .attempt import Attempt
from .counts import Counted
from .diagnose import kind_of_mistake
from .diagnose.written import unlike_its_look
from .judge_process import MAX_PRINTED
from .mistakes import Mistaken
from .refusals import launches_noted, note_job, refusal_of
from .spec import MILLION, Case, Spec, spec
from .verdict import NOT_YET, RIGHT, WRONG, Cases, Fault, Verdict, printable

CHILD = "rope_lab.judge.judge_process"
SECONDS = 30.0  # the most that a candidate may take for a case; our slowest kernel took 1.3
_ASKED = 5  # cases in which the cause of a wrong address is looked for
MANY_PROGRAMS = 3000  # limit for a large tensor: the interpreter takes a millisecond for each


class Tried(NamedTuple):
    """A verdict, and what a right kernel did with the probe; None without a probe."""

    verdict: Verdict
    counted: Counted | None = None


def check_exercise(candidate: Callable, specification: Spec | Callable) -> Verdict:
    """Check a function on every case of a specification.

    Args:
        candidate: a function with the specification's arguments, in a notebook or a module. From
            its notebook, it may use functions, kernels, modules and plain values. The verdict
            names the first thing of another type.
        specification: a `Spec`, or a function whose arguments are annotated with shapes.

    Raises:
        ValueError: the specification has an argument without a shape.
    """
    return try_on_cases(candidate, spec(specification)).verdict


def try_on_cases(
    candidate: Callable, wanted: Spec, *, out: str = "", probe: Case | None = None
) -> Tried:
    """Run the candidate in the child processes.

    Args:
        candidate, wanted: as in `check_exercise`.
        out, probe: as in `TryOnCases`.
    """

    def shipped(functions: dict[str, Callable]) -> dict[str, Shipped | Mistaken]:
        return {
            words: made if isinstance(made, Mistaken) else Shipped.of(made, "the mistake")
            for words, made in functions.items()
            if not isinstance(made, Mistaken) or made.is_there
        }

    try:
        job = TryOnCases(
            candidate=Shipped.of(candidate, "the candidate"),
            wanted=replace(
                wanted,
                function=Shipped.of(wanted.function, "the specification"),
                mistakes=shipped(wanted.mistakes),
                roundings=shipped(wanted.roundings),
            ),
            out=out,
            probe=probe,
        )
    except CannotPassOn as refused:
        return Tried(Verdict(state=NOT_YET, reason=str(refused), boxed=True))
    interpreted = _tried_by_the_child("interpreted", job)
    if interpreted.verdict and interpreted.verdict.cases.launches and torch.cuda.is_available():
        compiled = _tried_by_the_child("compiled", job)
        return interpreted if compiled.verdict else compiled
    return interpreted


def _tried_by_the_child(engine: str, job: "TryOnCases") -> Tried:
    """The child's verdict, or one that says that the child has ended."""
    try:
        child = Worker.kept(CHILD, "1" if engine == "interpreted" else "0")
        answer = child.ask(job, SECONDS)
    except Ended as ended:
        return Tried(_verdict_on_the_end(ended, job.wanted))
    if machine := answer.get("machine"):
        return Tried(Verdict(state=NOT_YET, reason=machine, boxed=True))
    if printed := answer["printed"]:
        print(printable(printed), end="" if printed.endswith("\n") else "\n")
    verdict = answer["verdict"]
    verdict = replace(verdict, boxed=True, cases=replace(verdict.cases, engine=engine))
    try:
        if verdict and (refusal := refusal_of(answer["launches"])):
            verdict = replace(verdict, state=WRONG, reason=refusal, remark="")
    except DidNotFinish as error:
        reason = f"right in the interpreter, and whether it compiles is not known: {error}"
        verdict = replace(verdict, state=NOT_YET, reason=reason, remark="")
    return Tried(verdict, answer["counted"])


def _verdict_on_the_end(ended: Ended, wanted: Spec) -> Verdict:
    """The verdict on a candidate whose process ended or ran out of time."""
    what = f"the case '{ended.at}'" if ended.at else "it"  # until the first case begins
    last = ended.words.splitlines()[-1] if ended.words else ""
    state, reason = WRONG, f"it ended the process (exit {ended.code}) {last}".strip()
    if ended.late:
        reason = f"{what} ran for {SECONDS:.0f} seconds without finishing"
        if ended.at not in ("", wanted.cases[0].name):  # it finished others
            state = NOT_YET
            reason += ": it may be endless, or only too slow for the interpreter, where larger "
            reason += "blocks and Triton's own reductions (tl.sum, tl.max) are faster"
    elif ended.code == -9:  # SIGKILL
        state, reason = NOT_YET, "its process was killed, as where memory is short"
    return Verdict(state=state, reason=reason, boxed=True)


# in the child


@dataclass(frozen=True)
class TryOnCases:
    """A job: the verdict on a candidate.

    Attributes:
        candidate: a reader's function.
        wanted: the specification; its functions are `Shipped`, except mistakes in solutions.
        out: the keyword that passes the candidate its first input to overwrite; '' for none.
        probe: a case in which the work of a right candidate is counted.
    """

    candidate: Shipped
    wanted: Spec
    out: str = ""
    probe: Case | None = None

    def answer(self, folder: Path, tell: Callable[[str], None]) -> dict:
        """The `verdict`, what the candidate `printed`, and the probe's counts, `counted`.

        Also the `launches` that were interpreted, as jobs for the compiler. `tell` reports the
        beginning of each case, so that the time limit applies to each case.
        """
        candidate = self.candidate.load(folder, "candidate")
        if self.out:
            candidate = in_place(candidate, self.out)

        def loaded(functions: dict[str, Shipped | Mistaken]) -> dict[str, Callable]:
            return {
                words: made if isinstance(made, Mistaken) else made.load(folder, "mistake")
                for words, made in functions.items()
            }

        wanted = replace(
            self.wanted,
            function=self.wanted.function.load(folder, "spec"),
            mistakes=loaded(self.wanted.mistakes),
            roundings=loaded(self.wanted.roundings),
        )
        counted = None
        with launches_noted() as launches:
            verdict, printed = verdict_on_cases(candidate, wanted, tell)
            if self.probe and verdict:
                verdict, counted = probed(verdict, candidate, wanted, self.probe)
        if verdict and interprets():
            verdict = rehearsed_verdict(verdict, candidate, wanted, launches)
        if verdict.state == WRONG and (words := unlike_its_look(self.candidate.program)):
            verdict = replace(verdict, because="; ".join(filter(None, (verdict.because, words))))
        jobs = [*launches.values()]
        return {"verdict": verdict, "printed": printed, "counted": counted, "launches": jobs}


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
    reason = outcome.reason or kind_of_mistake([attempt.evidence()])
    cases = replace(outcome.cases, right=verdict.cases.right)
    return replace(outcome, reason=reason, cases=cases), None


def rehearsed_verdict(
    verdict: Verdict, candidate: Callable, wanted: Spec, jobs: dict[tuple, dict]
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


def verdict_on_cases(
    candidate: Callable, wanted: Spec, tell: Callable[[str], None]
) -> tuple[Verdict, str]:
    """The verdict after all cases, and what the candidate printed in the first case with output.

    An autotuned kernel runs in each of its configurations, because a GPU may take any of them.
    """
    Tuning.most, number, verdicts = 1, 0, []
    while number < Tuning.most:
        verdict, printed = _verdict_in_a_configuration(number, candidate, wanted, tell)
        if verdict.fault != Fault.PASSED_OVER or Tuning.most == 1:
            if not verdict:
                return verdict, printed
            verdicts.append((verdict, printed))
        number += 1
    return verdicts[0] if verdicts else (verdict, printed)


def _verdict_in_a_configuration(
    number: int, candidate: Callable, wanted: Spec, tell: Callable[[str], None]
) -> tuple[Verdict, str]:
    right: list[str] = []
    misses: list[Attempt] = []
    wrong: list[Verdict] = []  # of each of these
    slow: list[str] = []
    printed, remark, traced = "", "", Traced()
    for case in wanted.cases:
        programs, seconds = traced.estimates_for(wanted, case)
        if case.name == MILLION and interprets() and not wrong:
            from .rehearsal import programs_of

            programs = programs_of(candidate, wanted, case)  # fewer where each has more to do
        if case.is_large and (wrong or number or programs > MANY_PROGRAMS):
            continue
        if seconds > SECONDS:
            slow.append(case.name)
            continue
        tell(case.name)
        began = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            attempt = Attempt(candidate, wanted, case, right, number)
            outcome = attempt.outcome()
        if said.getvalue() and not printed:
            printed = f"Printed in the case '{case.name}':\n{said.getvalue()[:MAX_PRINTED]}"
        traced.add(attempt, time.process_time() - began)
        if outcome is None:
            right.append(case.name)
            if not remark and (found := attempt.remark()):
                remark = f"{found} (in the case '{case.name}')"
        elif outcome.state == NOT_YET or outcome.fault == Fault.PASSED_OVER:
            return outcome, printed
        else:
            misses.append(attempt)
            wrong.append(outcome)
    if not wrong:
        reason = f"{len(right)} cases: " + ", ".join(right)
        cases = Cases(right=tuple(right), launches=traced.launches)
        if slow:
            remark = f"too slow in the interpreter for these cases: {', '.join(slow)}"
        return Verdict(state=RIGHT, reason=reason, remark=remark, cases=cases), printed
    also_wrong = tuple(other.cases.wrong for other in wrong[1:])
    first = explained(wrong[0], misses)
    cases = replace(first.cases, right=tuple(right), also_wrong=also_wrong)
    return replace(first, cases=cases), printed


@dataclass
class Traced:
    """What is kept from the traces of all cases."""

    launches: int = 0
    # the fewest of any case, by element of its first input
    programs: float = math.inf
    seconds: float = math.inf

    def add(self, attempt: Attempt, seconds: float) -> None:
        elements = attempt.given[0].numel()
        self.seconds = min(self.seconds, seconds / elements)
        if attempt.trace is not None:
            self.launches += attempt.trace.launches
            self.programs = min(self.programs, len(attempt.trace.programs) / elements)

    def estimates_for(self, wanted: Spec, case: Case) -> tuple[float, float]:
        """How many programs and seconds a case needs at least; 0 if nothing was traced yet."""
        elements = math.prod(wanted.shapes(case)[0])
        return tuple(
            0 if each == math.inf else each * elements for each in (self.programs, self.seconds)
        )


def explained(verdict: Verdict, misses: list[Attempt]) -> Verdict:
    """The verdict on the first wrong case, with the mistake if it is known."""
    missed = misses[0].missed
    if missed is not None:  # wrong elements, and no reason yet
        of_one_result = (attempt for attempt in misses if attempt.missed == missed)
        reason = kind_of_mistake(attempt.evidence() for attempt in of_one_result)
        return replace(verdict, reason=reason)
    if verdict.fault in (Fault.OUTSIDE, Fault.COLLISION):
        # past a tensor's end there may be another tensor by chance: then the next case is tried
        found = (attempt.own_mistake() for attempt in misses[:_ASKED])
        return replace(verdict, because=next(filter(None, found), ""))
    return verdict
