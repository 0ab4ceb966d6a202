"""Does a rung's kernel compute the right values: as it is, in place, backward, and both?"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from ...rungs import SHAPE
from ..exercises import climb as specs
from ..judge import judged
from ..spec import Case, Spec
from ..verdict import NOT_YET, Verdict
from .launch import launches_of, rotation

PROBE = Case("heads of 256, in bfloat16", {"s": 2, "b": 4, "h": 8, "d": SHAPE[-1]}, torch.bfloat16)
_IN_PLACE_FROM, _BACKWARD_FROM = 2, 4


@dataclass(frozen=True)
class _Use:
    """One way to call `my_rope`, and what it has to compute."""

    words: str  # before the name of a case that fails
    wanted: Spec
    transpose: bool = False
    out: str = ""  # the keyword that gets the input itself


def judged_values(rung: int, candidate: Callable) -> Verdict:
    """The verdict on values, addresses, collisions and order; `counted` if all are right."""
    if rung == 1:
        return judged(candidate, specs.rope_of_any_strides, probe=PROBE)
    uses = [_Use("", specs.rope_of_whole_rows)]
    if rung >= _IN_PLACE_FROM:
        uses.append(_Use("in place, ", specs.rope_of_whole_rows_in_place, out="out"))
    if rung >= _BACKWARD_FROM:
        backward, in_place = specs.rope_of_whole_rows_gradient, specs.rope_of_gradient_in_place
        uses.append(_Use("backward, ", backward, transpose=True))
        uses.append(_Use("backward in place, ", in_place, transpose=True, out="out"))
    return _judged_in_turn(candidate, uses)


def _judged_in_turn(candidate: Callable, uses: list[_Use]) -> Verdict:
    """The first verdict that isn't right, or the first one of all with every right case."""
    first, right = None, ()
    for use in uses:
        if missing := _missing_keyword(candidate, use):
            name = getattr(candidate, "__name__", "the function")
            reason = f"{name} takes no `{missing.partition('=')[0]}`"
            hint = f"add {missing} to its arguments, and use it"
            return Verdict(state=NOT_YET, reason=reason, hint=hint, boxed=True)
        call = partial(candidate, transpose=True) if use.transpose else candidate
        verdict = judged(call, use.wanted, out=use.out, probe=None if first else PROBE)
        right += tuple(use.words + case for case in verdict.right_cases)
        if not verdict:
            case = use.words + verdict.case if verdict.case else ""
            return replace(verdict, case=case, right_cases=right)
        first = first or verdict
    return replace(first, right_cases=right)


def _missing_keyword(candidate: Callable, use: _Use) -> str:
    """'out=None', if the candidate can't be called this way; else ''."""
    try:
        known = inspect.signature(candidate).parameters
    except (TypeError, ValueError):  # of a partial with a name that its function lacks, too
        return ""  # the call will say it
    if use.transpose and "transpose" not in known:
        return "transpose=False"
    return "out=None" if use.out and use.out not in known else ""


def another_kernel_backward(rung: int, candidate: Callable) -> bool:
    """Does the backward launch something else than the forward's kernel, once?"""
    if rung < _BACKWARD_FROM:
        return False
    forward = launches_of(rotation(candidate))
    backward = launches_of(rotation(partial(candidate, transpose=True)))
    return [launch.kernel for launch in forward] != [launch.kernel for launch in backward]
