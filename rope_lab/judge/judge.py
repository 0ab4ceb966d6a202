"""Judge a reader's function on all cases of a specification, in a process of its own.

A kernel with a wrong index may end the process it runs in, on a GPU all later CUDA calls with it.
So the candidate's source, with that of everything it uses from its notebook, goes to a child
process (`shipment.py`); where that ends or does not come back, the verdict says so. The child runs
Triton's interpreter, which can tell which program stored what. What is right there is compiled for
an H200, where Triton has its compiler (`refusals.py`). Where there is a GPU, a candidate that
launches kernels is run once more, by a second child, compiled.
"""

import functools
from collections.abc import Callable
from dataclasses import replace

import torch

from ..child import Ended, Worker
from ..shipment import CannotPassOn, Shipment, is_kernel, is_launch, kind_of
from .mistakes import Mistaken
from .refusals import refusal_of
from .spec import Case, Spec, spec
from .verdict import NOT_YET, WRONG, Verdict

CHILD = "rope_lab.judge.judge_process"
SECONDS = 30.0  # that a candidate may take for a case; of ours, the slowest took 1.3
_PLAIN = (int, float, str, bool, type(None))  # what a partial may hold


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
    return judged(candidate, spec(specification))


def judged(
    candidate: Callable, wanted: Spec, *, out: str = "", probe: Case | None = None
) -> Verdict:
    """The verdict of the child processes.

    Args:
        candidate, wanted: as in `check_exercise`.
        out: the keyword by which the candidate gets its first input to write over; '' for none.
        probe: a case with which the work of a right candidate is counted: `Verdict.climb.counted`.
    """
    try:
        job = {
            "candidate": shipped_call(candidate, "the candidate"),
            "function": shipped_call(wanted.function, "the specification"),
            "mistakes": {
                words: wrong.shipped
                if isinstance(wrong, Mistaken)
                else shipped_call(wrong, "the mistake")
                for words, wrong in wanted.mistakes.items()
            },
        }
    except CannotPassOn as refused:
        return Verdict(state=NOT_YET, reason=str(refused), boxed=True)
    job |= {"wanted": replace(wanted, function=None, mistakes={}), "out": out, "probe": probe}
    verdict = _verdict_of("interpreted", job)
    if verdict and verdict.cases.launches and torch.cuda.is_available():
        compiled = _verdict_of("compiled", job)
        return verdict if compiled else compiled
    return verdict


def shipped_call(function: Callable, called: str) -> dict:
    """What the child needs to call `function`, which a refusal calls so."""
    options = {}
    if isinstance(function, functools.partial):
        if function.args or not all(isinstance(v, _PLAIN) for v in function.keywords.values()):
            raise CannotPassOn(called, "a partial", "give it plain keyword arguments")
        function, options = function.func, dict(function.keywords)
    if is_kernel(function) or is_launch(function):
        launcher = "the function that launches it, by kernel[grid](...), and returns its result"
        raise CannotPassOn(called, "a kernel", f"give {launcher}")
    if not callable(function):
        raise CannotPassOn(called, kind_of(function), "give it a function")
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() else called.split()[-1]  # of a lambda
    shipment = Shipment()
    shipment.add(name, function)
    return {
        "program": shipment.program,
        "name": name,
        "options": options,
        "renamed": shipment.renamed,
    }


def _verdict_of(engine: str, job: dict) -> Verdict:
    """Of the child that judges, also where it has ended and gives none."""
    try:
        child = Worker.kept(CHILD, "1" if engine == "interpreted" else "0")
        answer = child.ask(job, SECONDS)
    except Ended as ended:
        what = f"the case '{ended.at}'" if ended.at else "it"  # until the first case begins
        last = ended.words.splitlines()[-1] if ended.words else ""
        reason = f"it ended the process (exit {ended.code}) {last}".strip()
        if ended.late:
            reason = f"{what} ran for {SECONDS:.0f} seconds without coming to an end"
        return Verdict(state=WRONG, reason=reason, boxed=True)
    if printed := answer["printed"]:
        print(printed, end="" if printed.endswith("\n") else "\n")
    verdict = answer["verdict"]
    verdict = replace(verdict, boxed=True, cases=replace(verdict.cases, engine=engine))
    refusal = refusal_of(answer["launches"], verdict.cases.moves_between) if verdict else ""
    return replace(verdict, state=WRONG, reason=refusal, remark="") if refusal else verdict
