"""Is a reader's kernel on the rung? First its values, then the instruments of the rung."""

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from ...rungs import SHAPE, kept, rung_of
from ...rungs.speed import speed_here, speed_of_ours
from ..exercises import exercises_rungs as specs
from ..judge import QUIET, judged
from ..spec import Case
from ..verdict import NOT_YET, RIGHT, WRONG, Verdict
from .advice import advice
from .launch import launches_of
from .readings import Readings, code_of, counts_of, loop_in
from .targets import NAMES, TARGETS, Target, number

_PROBE = Case("the probe", {"s": 2, "b": 4, "h": 8, "d": SHAPE[-1]}, torch.bfloat16)
_IN_PLACE_FROM, _BACKWARD_FROM = 2, 4


def check_rung(rung: int, candidate: Callable) -> Verdict:
    """Judge a kernel on a rung of the climb, and keep its source if it is there.

    First its values, its addresses and the order of its programs: `check_exercise`, from rung 2
    on also in place, from rung 4 on also backward. Then what the rung is about is counted in the
    interpreter, and in the machine code for an H200 at the headline shape.

    Args:
        rung: 1 to 8.
        candidate: `my_rope(t, freqs)`; from rung 2 on with a keyword `out`, from 4 on `transpose`.

    Raises:
        ValueError: there is no such rung.
    """
    number_of_rung = rung_of(rung).number
    verdict = _judged(number_of_rung, candidate)
    if not verdict:
        return _with_offer(verdict, number_of_rung)
    measured = _with_instruments(number_of_rung, candidate, verdict)
    if measured and QUIET not in os.environ:
        kept.keep(number_of_rung, candidate)
    return measured


def _judged(rung: int, candidate: Callable) -> Verdict:
    """Values, forward and back, in place and not."""
    wanted = specs.rope_of_any_strides if rung == 1 else specs.rope_of_whole_rows
    verdict = judged(candidate, wanted, probe=_PROBE)
    if not verdict:
        return verdict
    cases = verdict.right_cases
    if rung >= _IN_PLACE_FROM:
        missing = _without_keyword(candidate, "out", "None, or t itself")
        if missing is not None:
            return missing
        in_place = judged(candidate, specs.rope_of_whole_rows_in_place, out="out")
        if not in_place:
            return replace(in_place, case=f"in place, {in_place.case}" if in_place.case else "")
        cases += in_place.right_cases
    if rung >= _BACKWARD_FROM:
        missing = _without_keyword(candidate, "transpose", "True for the backward")
        if missing is not None:
            return missing
        backward = judged(partial(candidate, transpose=True), specs.rope_of_whole_rows_gradient)
        if not backward:
            return replace(backward, case=f"backward, {backward.case}" if backward.case else "")
        cases += backward.right_cases
    return replace(verdict, right_cases=cases)


def _with_offer(verdict: Verdict, rung: int) -> Verdict:
    """Who has not begun may begin with a kernel of his own."""
    if verdict.state != NOT_YET or verdict.hint or QUIET in os.environ:
        return verdict
    return replace(verdict, hint=kept.offer(rung))


def _without_keyword(candidate: Callable, keyword: str, meaning: str) -> Verdict | None:
    if keyword in inspect.signature(candidate).parameters:
        return None
    name = getattr(candidate, "__name__", "the function")
    reason = f"{name} takes no `{keyword}`: {meaning}"
    return Verdict(state=NOT_YET, reason=reason, boxed=True)


def _with_instruments(rung: int, candidate: Callable, verdict: Verdict) -> Verdict:
    """The verdict of the instruments on a kernel whose values are right."""
    launches = launches_of(candidate)
    if len(launches) != 1:
        reason = f"{len(launches)} launches for {SHAPE}, where 1 is asked for"
        return replace(verdict, state=NOT_YET, reason=reason)
    (launch,) = launches
    if loop := loop_in(launch.kernel):
        reason = f"its instructions can't be counted through a loop: {loop}"
        return replace(verdict, state=NOT_YET, reason=reason)
    try:
        readings = Readings(**counts_of(verdict.counted), **code_of(launch))
    except (RuntimeError, TypeError) as refused:
        reason = f"right in the interpreter, but for an H200 {_last_line(refused)}"
        return replace(verdict, state=WRONG, reason=reason)
    targets = TARGETS[rung]
    missed = [target for target in targets if not target.met(readings)]
    table = "\n".join(_row(target, readings, target in missed) for target in targets)
    if not missed:
        reason = f"rung {rung}, {rung_of(rung).change} ({len(verdict.right_cases)} cases)\n{table}"
        speed = "\n         ".join(filter(None, (speed_of_ours(rung), speed_here(candidate))))
        return replace(verdict, state=RIGHT, reason=reason, speed=speed)
    first = missed[0]
    reason = f"the values are right; rung {rung} wants {NAMES[first.instrument]} {first.words}"
    return replace(
        verdict,
        state=NOT_YET,
        reason=f"{reason}\n{table}",
        looks_like=advice(first.instrument, readings, verdict.counted, launch),
        speed=speed_here(candidate, explained_by=NAMES[first.instrument]),
    )


def _row(target: Target, readings: Readings, missed: bool) -> str:
    """'  instructions           at most 900 a warp      yes'."""
    value = getattr(readings, target.instrument)
    shown = f"{number(value)}{target.unit}" if target.exact or missed else ""
    answer = "no" if missed else "yes"
    return f"  {NAMES[target.instrument]:22}{shown:16}{target.words:22}{answer}"


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    found = [line for line in lines if "error" in line.lower() or "Error" in line]
    return (found or lines)[-1].strip()
