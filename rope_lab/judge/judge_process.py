"""The child process that judges: `worker.py` calls it with jobs, and it answers.

It tells when a case begins, so that each case has the time for itself.
"""

import contextlib
import io
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..interpreter import run_as_compiled
from .attempt import Attempt
from .counts import Counted
from .diagnose import kind_of_mistake
from .diagnose.written import unlike_its_look
from .launched import interprets
from .refusals import launches_noted
from .shipped import Shipped
from .spec import MANY, Case, Spec
from .state import has_changed, settle, state
from .verdict import NOT_YET, RIGHT, WRONG, Cases, Fault, Verdict

IN_ORDER_ALONE = (
    "right only if the programs run one after the other, the first one first: what an atomic "
    "operation returns depends on their order, which a GPU doesn't promise"
)
_ASKED = 5  # cases for the mistake behind a wrong address
MAX_PRINTED = 4000  # characters
MANY_PROGRAMS = 3000  # that a large tensor may take: the interpreter needs a millisecond for each


def start(folder: Path) -> Callable[[], bool]:
    """Get ready to run candidates, once in this process; whether one has changed it since."""
    # A candidate that calls torch.compile runs as it is: its operations are watched one by one.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    settle()
    if interprets():
        run_as_compiled()
    return partial(has_changed, state())


def answer(job: "TryOnCases", folder: Path, tell: Callable[[str], None]) -> dict:
    """As the job answers: a `TryOnCases`, or a `Draw` of accesses.py."""
    return job.answer(folder, tell)


@dataclass(frozen=True)
class TryOnCases:
    """A job: the verdict on a candidate.

    Attributes:
        candidate: a reader's function.
        wanted: the specification; its functions come by themselves.
        function: of the specification.
        mistakes, roundings: as `Spec` has them.
        out: the keyword by which the candidate gets its first input to write over; '' for none.
        probe: a case with which the work of a right candidate is counted.
    """

    candidate: Shipped
    wanted: Spec
    function: Shipped
    mistakes: dict[str, Shipped]
    roundings: dict[str, Shipped]
    out: str = ""
    probe: Case | None = None

    def answer(self, folder: Path, tell: Callable[[str], None]) -> dict:
        """The `verdict`, what the candidate `printed`, and what it did with the probe, `counted`.

        And the `launches` that were interpreted, as jobs for the compiler. `tell` says when a case
        begins.
        """
        candidate = self.candidate.load(folder, "candidate")
        if self.out:
            candidate = in_place(candidate, self.out)

        def loaded(functions: dict[str, Shipped]) -> dict[str, Callable]:
            return {words: made.load(folder, "mistake") for words, made in functions.items()}

        wanted = replace(
            self.wanted,
            function=self.function.load(folder, "spec"),
            mistakes=loaded(self.mistakes),
            roundings=loaded(self.roundings),
        )
        counted = None
        with launches_noted() as launches:
            verdict, printed = verdict_on(candidate, wanted, tell)
            if self.probe and verdict:
                verdict, counted = probed(verdict, candidate, wanted, self.probe)
        if verdict.state == WRONG and (words := unlike_its_look(self.candidate.program)):
            verdict = replace(verdict, because="; ".join(filter(None, (verdict.because, words))))
        jobs = [*launches.values()]
        return {"verdict": verdict, "printed": printed, "counted": counted, "launches": jobs}


def in_place(candidate: Callable, out: str) -> Callable:
    """The candidate as a function that writes over its first input, which it gets as `out`, too."""
    return lambda first, *others: candidate(first, *others, **{out: first})


def probed(
    verdict: Verdict, candidate: Callable, wanted: Spec, case: Case
) -> tuple[Verdict, Counted | None]:
    """On a right candidate with one case more: what it did there is counted, or it is wrong."""
    attempt = Attempt(candidate, wanted, case, earlier=list(verdict.cases.right))
    outcome = attempt.outcome()
    if outcome is None:
        return verdict, attempt.counted()
    reason = outcome.reason or kind_of_mistake([attempt.evidence()])
    cases = replace(outcome.cases, right=verdict.cases.right)
    return replace(outcome, reason=reason, cases=cases), None


def verdict_on(
    candidate: Callable, wanted: Spec, tell: Callable[[str], None]
) -> tuple[Verdict, str]:
    """After all cases; and what the candidate printed in the first one in which it did."""
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
    if not wrong and (case := traced.updated) and depends_on_the_order(candidate, wanted, case):
        right.remove(case.name)
        cases = Cases(right=tuple(right), wrong=case.name)
        return Verdict(state=WRONG, reason=IN_ORDER_ALONE, cases=cases), printed
    if not wrong:
        reason = f"{len(right)} cases: " + ", ".join(right)
        launches, moves = traced.launches, traced.moves_between
        cases = Cases(right=tuple(right), launches=launches, moves_between=moves)
        return Verdict(state=RIGHT, reason=reason, remark=remark, cases=cases), printed
    also_wrong = tuple(other.cases.wrong for other in wrong[1:])
    first = explained(wrong[0], misses)
    cases = replace(first.cases, right=tuple(right), also_wrong=also_wrong)
    return replace(first, cases=cases), printed


@dataclass
class Traced:
    """What is kept of the traces of all cases."""

    launches: int = 0
    moves_between: dict[tuple, str] = field(default_factory=dict)  # as `Trace` has it
    updated: Case | None = None  # the first one whose programs update something atomically
    programs_an_element: float = math.inf  # the fewest of any case

    def add(self, attempt: "Attempt") -> None:
        trace = attempt.trace
        if trace is None:
            return
        self.launches += trace.launches
        self.moves_between = trace.moves_between | self.moves_between
        if any(memory.has_atomics for memory in trace.memories) and not trace.waits:
            self.updated = self.updated or attempt.case
        programs_an_element = len(trace.programs) / attempt.given[0].numel()
        self.programs_an_element = min(self.programs_an_element, programs_an_element)

    def programs_for(self, wanted: Spec, case: Case) -> float:
        """How many programs a case may take, by those that ran; 0 where none was traced."""
        if self.programs_an_element == math.inf:
            return 0
        return self.programs_an_element * wanted.inputs(case)[0].numel()


def depends_on_the_order(candidate: Callable, wanted: Spec, case: Case) -> bool:
    """Whether the results are others if the programs run from the last one to the first."""
    attempt = Attempt(candidate, wanted, case, earlier=[])
    with contextlib.redirect_stdout(io.StringIO()):
        return attempt.depends_on_the_order()


def explained(verdict: Verdict, misses: list["Attempt"]) -> Verdict:
    """The verdict on the first of the cases that are wrong, with the mistake, if one is known."""
    missed = misses[0].missed
    if missed is not None:  # wrong elements, and no reason yet
        of_one_result = (attempt for attempt in misses if attempt.missed == missed)
        reason = kind_of_mistake(attempt.evidence() for attempt in of_one_result)
        return replace(verdict, reason=reason)
    if verdict.fault in (Fault.OUTSIDE, Fault.COLLISION):
        # past the end of a tensor another one may lie by chance: then the next case is asked
        found = (attempt.own_mistake() for attempt in misses[:_ASKED])
        return replace(verdict, because=next(filter(None, found), ""))
    return verdict
