"""Does a rung's kernel compute the right values: as it is, in place, backward, and both?"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from ...rungs import SHAPE
from ..exercises import climb as specs
from ..judge import judged
from ..spec import Case
from ..verdict import NOT_YET, Verdict

PROBE = Case("heads of 256, in bfloat16", {"s": 2, "b": 4, "h": 8, "d": SHAPE[-1]}, torch.bfloat16)
BACKWARD_FROM = 4


# Ways to call `my_rope`: from which rung on, words before the name of a case that fails, what it
# has to compute, is that the transpose, and the keyword that gets the input itself.
_USES = (
    (2, "", specs.rope_of_whole_rows, False, ""),
    (2, "in place, ", specs.rope_of_whole_rows_in_place, False, "out"),
    (BACKWARD_FROM, "backward, ", specs.rope_of_whole_rows_gradient, True, ""),
    (BACKWARD_FROM, "backward in place, ", specs.rope_of_gradient_in_place, True, "out"),
)


def judged_values(rung: int, candidate: Callable) -> Verdict:
    """The verdict on values, addresses, collisions and order; `counted` if all are right.

    It is the first one that isn't right, or the first one of all with every right case.
    """
    if rung == 1:
        return judged(candidate, specs.rope_of_any_strides, probe=PROBE)
    first, right = None, ()
    known = inspect.signature(candidate).parameters
    for begins, words, wanted, transpose, out in _USES:
        if rung < begins:
            continue
        keywords = {"transpose": "False"} if transpose else {}
        keywords |= {out: "None"} if out else {}
        if missing := next((name for name in keywords if name not in known), ""):
            reason = f"{getattr(candidate, '__name__', 'the function')} takes no `{missing}`"
            hint = f"add {missing}={keywords[missing]} to its arguments, and use it"
            return Verdict(state=NOT_YET, reason=reason, hint=hint, boxed=True)
        call = partial(candidate, transpose=True) if transpose else candidate
        verdict = judged(call, wanted, out=out, probe=None if first else PROBE)
        right += tuple(words + case for case in verdict.right_cases)
        if not verdict:
            case = words + verdict.case if verdict.case else ""
            return replace(verdict, case=case, right_cases=right)
        first = first or verdict
    return replace(first, right_cases=right)
