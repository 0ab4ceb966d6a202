"""Does a rung's kernel compute the right values: as it is, in place, backward, and both?"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from ...rungs import SHAPE
from ..judge import judged
from ..spec import Case, Spec
from ..verdict import NOT_YET, Verdict
from . import specifications as specs

PROBE = Case("heads of 256, in bfloat16", {"s": 2, "b": 4, "h": 8, "d": SHAPE[-1]}, torch.bfloat16)


@dataclass(frozen=True)
class Use:
    """A way to call `my_rope`."""

    from_rung: int
    words: str  # before what is said of this use
    wanted: Spec  # what it has to compute
    transpose: bool = False
    out: str = ""  # the keyword that gets the input itself

    @property
    def keywords(self) -> dict[str, str]:
        """Arguments that it needs, and their defaults."""
        flags = {"transpose": "False"} if self.transpose else {}
        return flags | ({self.out: "None"} if self.out else {})

    def of(self, candidate: Callable) -> Callable:
        """The candidate with its flag."""
        return partial(candidate, transpose=True) if self.transpose else candidate


_FIRST_RUNG = Use(1, "", specs.rope_of_any_strides)
_USES = (
    Use(2, "", specs.rope_of_whole_rows),
    Use(2, "in place, ", specs.rope_of_whole_rows_in_place, out="out"),
    Use(4, "backward, ", specs.rope_of_whole_rows_gradient, transpose=True),
    Use(4, "backward in place, ", specs.rope_of_gradient_in_place, transpose=True, out="out"),
)


def uses_of(rung: int) -> list[Use]:
    """What a rung has to do; the first one is the forward, out of place."""
    return [use for use in _USES if use.from_rung <= rung] or [_FIRST_RUNG]


def judged_values(rung: int, candidate: Callable) -> Verdict:
    """The verdict on values, addresses, collisions and order; `counted` if all are right.

    It is the first one that isn't right, or that of the forward with every right case, and with
    the first remark on any use.
    """
    first, right, remark = None, (), ""
    for use in uses_of(rung):
        known = inspect.signature(candidate).parameters if use.keywords else {}
        if missing := next((name for name in use.keywords if name not in known), ""):
            reason = f"{getattr(candidate, '__name__', 'the function')} takes no `{missing}`"
            hint = f"add {missing}={use.keywords[missing]} to its arguments, and use it"
            return Verdict(state=NOT_YET, reason=reason, hint=hint, boxed=True)
        probe = None if first else PROBE
        verdict = judged(use.of(candidate), use.wanted, out=use.out, probe=probe)
        right += tuple(use.words + case for case in verdict.right_cases)
        if not verdict:
            case = use.words + verdict.case if verdict.case else ""
            return replace(verdict, case=case, right_cases=right)
        if verdict.remark:
            remark = remark or use.words + verdict.remark
        first = first or verdict
    return replace(first, right_cases=right, remark=remark)
