"""TryOnCases a reader's function on all cases of a specification, in a process of its own.

A kernel with a wrong index may end the process it runs in, on a GPU all later CUDA calls with it.
So the candidate's source, with that of everything it uses from its notebook, goes to a child
process (`shipment.py`); where that ends or does not come back, the verdict says so. The child runs
Triton's interpreter, which can tell which program stored what. What is right there is compiled for
an H200, where Triton has its compiler (`refusals.py`). Where there is a GPU, a candidate that
launches kernels is run once more, by a second child, compiled.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from ..child import Ended, Worker
from ..shipment import CannotPassOn
from .counts import Counted
from .judge_process import TryOnCases
from .mistakes import Mistaken
from .refusals import refusal_of
from .shipped import Shipped
from .spec import Case, Spec, spec
from .verdict import NOT_YET, WRONG, Verdict

CHILD = "rope_lab.judge.judge_process"
SECONDS = 30.0  # that a candidate may take for a case; our slowest kernel took 1.3


class Tried(NamedTuple):
    """A verdict, and what a right kernel did with the probe; None without one."""

    verdict: Verdict
    counted: Counted | None = None


def check_exercise(candidate: Callable, specification: Spec | Callable) -> Verdict:
    """Try a candidate on every case of a specification.

    Args:
        candidate: a function that takes the specification's arguments, written in a notebook or a
            module; what it uses from its notebook may be functions, kernels, modules and plain
            values. Of anything else the verdict names the first.
        specification: a `Spec`, or a function whose arguments are annotated with shapes.

    Raises:
        ValueError: the specification has an argument without a shape.
    """
    return try_on_cases(candidate, spec(specification)).verdict


def try_on_cases(
    candidate: Callable, wanted: Spec, *, out: str = "", probe: Case | None = None
) -> Tried:
    """What the child processes say.

    Args:
        candidate, wanted: as in `check_exercise`.
        out, probe: as `TryOnCases` has them.
    """

    def shipped(functions: dict[str, Callable]) -> dict[str, Shipped]:
        return {
            words: wrong.shipped
            if isinstance(wrong, Mistaken)
            else Shipped.of(wrong, "the mistake")
            for words, wrong in functions.items()
        }

    try:
        job = TryOnCases(
            candidate=Shipped.of(candidate, "the candidate"),
            wanted=replace(wanted, function=None, mistakes={}, roundings={}),
            function=Shipped.of(wanted.function, "the specification"),
            mistakes=shipped(wanted.mistakes),
            roundings=shipped(wanted.roundings),
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


def _tried_by_the_child(engine: str, job: TryOnCases) -> Tried:
    """Also where it has ended and says nothing."""
    try:
        child = Worker.kept(CHILD, "1" if engine == "interpreted" else "0")
        answer = child.ask(job, SECONDS)
    except Ended as ended:
        what = f"the case '{ended.at}'" if ended.at else "it"  # until the first case begins
        last = ended.words.splitlines()[-1] if ended.words else ""
        reason = f"it ended the process (exit {ended.code}) {last}".strip()
        if ended.late:
            reason = f"{what} ran for {SECONDS:.0f} seconds without coming to an end"
        return Tried(Verdict(state=WRONG, reason=reason, boxed=True))
    if printed := answer["printed"]:
        print(printed, end="" if printed.endswith("\n") else "\n")
    verdict = answer["verdict"]
    verdict = replace(verdict, boxed=True, cases=replace(verdict.cases, engine=engine))
    refusal = refusal_of(answer["launches"], verdict.cases.moves_between) if verdict else ""
    if refusal:
        verdict = replace(verdict, state=WRONG, reason=refusal, remark="")
    return Tried(verdict, answer["counted"])
