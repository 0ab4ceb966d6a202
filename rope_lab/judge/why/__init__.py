"""Why is a result wrong? Evidence by experiments on the reader's own kernel, without a list.

If a wrong element is made of others than it needs, an address or a mask is wrong. If it is made of
what it needs, a number is. Then one change is looked for that makes every element right: of one
index, one pointer, one mask, one access, one argument of the launch (`found.py`). That is proof,
and the verdict names its line. Without proof it has what the runs show (`addresses.py`,
`numbers.py`). Only what is no sum of products, as a norm, is compared with `formulas.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch

from rope_kernels.paths import triton_is_installed

from ...interpreter.tuners import configuration
from ...run import interpreting
from ..attempt import Attempt
from ..guests import a_guest, device_of_the_lab
from ..verdict import Evidence, Fault, Verdict
from .addresses import (
    collision,
    exchanged_results,
    kept,
    masked_lanes,
    other_elements,
    outside,
    raced,
    read_again,
    stored_twice,
    taken_for_contiguous,
    unwritten,
)
from .changes import Budget, OutOfBudget
from .experiments import Experiments
from .numbers import another_number, factors, formula, not_finite, rounding, too_narrow, transposed
from .words import evidence, where

_RULES = (
    raced,
    taken_for_contiguous,
    unwritten,
    read_again,
    stored_twice,
    masked_lanes,
    not_finite,
    exchanged_results,
    formula,
    other_elements,
    rounding,
    transposed,
    factors,
    another_number,
)
_MANY_PROGRAMS = 24  # with more, a case with fewer rows is tried


def why(attempt: Attempt, outcome: Verdict) -> Evidence:
    """Evidence for one wrong case; none if its reason says it all, or after the budget.

    Args:
        attempt: with that outcome.
        outcome: wrong.
    """
    if attempt.missed is None and outcome.fault not in (Fault.OUTSIDE, Fault.COLLISION):
        return Evidence()
    if attempt.case.is_large:
        words = "Smaller tensors are right: the grid, a position or an offset has a limit."
        return evidence("size", words)
    with ExitStack() as stack:
        stack.enter_context(a_guest())
        stack.enter_context(device_of_the_lab("cpu", attempt.candidate))
        stack.enter_context(configuration(attempt.configuration))
        if triton_is_installed():
            stack.enter_context(interpreting())
        found = _evidence(attempt, outcome)
    if attempt.case.options and attempt.earlier:
        name = next(iter(attempt.case.options))
        words = f"With the default of `{name}`, all is right. {found.words}"
        return replace(found, kind=found.kind or "option", words=words)
    return found


def _evidence(attempt: Attempt, outcome: Verdict) -> Evidence:
    budget = Budget()
    attempt = _smaller(attempt, outcome) or attempt
    collides = outcome.fault == Fault.COLLISION
    e = Experiments(attempt, attempt.missed or 0, budget=budget, collides=collides)
    if outcome.fault == Fault.OUTSIDE:
        return _within_budget(e, (outside,))
    if collides:
        return _within_budget(e, (collision,))
    if not e.first:
        return kept(e)
    if e.expected.dtype in (torch.float16, torch.bfloat16):
        wide = Experiments(attempt, e.number, budget=budget, wide=True)
        if not wide.first:
            return too_narrow(e)
        e = wide
    return _within_budget(e, _RULES)


def _within_budget(
    e: Experiments, rules: Sequence[Callable[[Experiments], Evidence | None]]
) -> Evidence:
    """The first evidence that is found; in a hurry, without proof."""
    for rule in rules:
        try:
            found = rule(e)
        except OutOfBudget:
            e.budget.hurries = True
            try:
                found = rule(e)
            except OutOfBudget:
                break
        if found:
            return found
    lines = tuple(store.line for store, _ in e.stores(e.first)[-1:]) if e.first else ()
    return evidence("unknown", where(e) if e.first else "", lines=lines)


def _smaller(attempt: Attempt, outcome: Verdict) -> Attempt | None:
    """The same mistake at the same element, in a case with few rows."""
    case = attempt.case
    most = {"s": 2, "b": 2, "h": 2, "g": 2}
    few = {letter: min(size, most.get(letter, size)) for letter, size in case.sizes.items()}
    programs = len(attempt.trace.programs) if attempt.trace else 0
    if few == case.sizes or case.is_large or programs <= _MANY_PROGRAMS:
        return None
    made = Attempt(attempt.candidate, attempt.wanted, replace(case, sizes=few), attempt.earlier)
    other = made.outcome()
    if other is None or (other.fault, made.missed) != (outcome.fault, attempt.missed):
        return None
    first, same = (x.compared and x.compared.first_wrong_index for x in (other, outcome))
    return made if first == same else None
