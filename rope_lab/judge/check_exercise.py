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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from ..child import Ended, Worker
from ..shipment import CannotPassOn, Shipped
from .attempt import Attempt
from .counts import Counted
from .diagnose import kind_of_mistake
from .diagnose.written import unlike_its_look
from .judge_process import MAX_PRINTED
from .mistakes import Mistaken
from .refusals import launches_noted, refusal_of
from .spec import MANY, Case, Spec, spec
from .verdict import NOT_YET, RIGHT, WRONG, Cases, Fault, Verdict

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
        what = f"the case '{ended.at}'" if ended.at else "it"  # until the first case begins
        last = ended.words.splitlines()[-1] if ended.words else ""
        reason = f"it ended the process (exit {ended.code}) {last}".strip()
        if ended.late:
            reason = f"{what} ran for {SECONDS:.0f} seconds without finishing"
        return Tried(Verdict(state=WRONG, reason=reason, boxed=True))
    if printed := answer["printed"]:
        print(printed, end="" if printed.endswith("\n") else "\n")
    verdict = answer["verdict"]
    verdict = replace(verdict, boxed=True, cases=replace(verdict.cases, engine=engine))
    if verdict and (refusal := refusal_of(answer["launches"])):
        verdict = replace(verdict, state=WRONG, reason=refusal, remark="")
    return Tried(verdict, answer["counted"])


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


def verdict_on_cases(
    candidate: Callable, wanted: Spec, tell: Callable[[str], None]
) -> tuple[Verdict, str]:
    """The verdict after all cases, and what the candidate printed in the first case with output."""
    right: list[str] = []
    misses: list[Attempt] = []
    wrong: list[Verdict] = []  # of each of these
    printed, remark, traced = "", "", Traced()
    for case in wanted.cases:
        if case.name == MANY and (wrong or traced.programs_for(wanted, case) > MANY_PROGRAMS):
            continue
        tell(case.name)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            attempt = Attempt(candidate, wanted, case, earlier=right)
            outcome = attempt.outcome()
        if said.getvalue() and not printed:
            printed = f"Printed in the case '{case.name}':\n{said.getvalue()[:MAX_PRINTED]}"
        traced.add(attempt)
        if outcome is None:
            right.append(case.name)
            if not remark and (found := attempt.remark()):
                remark = f"{found} (in the case '{case.name}')"
        elif outcome.state == NOT_YET:
            return outcome, printed
        else:
            misses.append(attempt)
            wrong.append(outcome)
    if not wrong:
        reason = f"{len(right)} cases: " + ", ".join(right)
        cases = Cases(right=tuple(right), launches=traced.launches)
        return Verdict(state=RIGHT, reason=reason, remark=remark, cases=cases), printed
    also_wrong = tuple(other.cases.wrong for other in wrong[1:])
    first = explained(wrong[0], misses)
    cases = replace(first.cases, right=tuple(right), also_wrong=also_wrong)
    return replace(first, cases=cases), printed


@dataclass
class Traced:
    """What is kept from the traces of all cases."""

    launches: int = 0
    programs_an_element: float = math.inf  # the fewest of any case

    def add(self, attempt: Attempt) -> None:
        trace = attempt.trace
        if trace is None:
            return
        self.launches += trace.launches
        programs_an_element = len(trace.programs) / attempt.given[0].numel()
        self.programs_an_element = min(self.programs_an_element, programs_an_element)

    def programs_for(self, wanted: Spec, case: Case) -> float:
        """How many programs a case may need, estimated from other cases; 0 if none was traced."""
        if self.programs_an_element == math.inf:
            return 0
        return self.programs_an_element * wanted.inputs(case)[0].numel()


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
