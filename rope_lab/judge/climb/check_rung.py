"""Is a reader's kernel on the rung? Check its values, then the rung's instruments."""

import inspect
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from ...compiler.launch_limits import Refused
from ...compiler.launches import Launch
from ...records import QUIET
from ...rungs import RUNGS, SHAPE, kept, rung_of
from ...rungs.measured import speed_here, speed_of_ours
from ...solved import after_rung, older_copy
from ...standalone import NotStandalone
from ..check_exercise import Tried, in_place, try_on_cases
from ..counts import Counted
from ..far_apart import wrong_far_apart
from ..guests import TookTooLong
from ..refusals import does_not_compile
from ..rehearsal import Rehearsal, rehearsed
from ..spec import Case, Spec
from ..verdict import AS_INTERPRETED, NOT_YET, RIGHT, WRONG, Verdict, raised
from . import specifications as specs
from .instruments import headline, loop_in, readings_of
from .ladder import TO_FIND, row_of
from .targets import (
    EIGHT_ROWS,
    IN_ORDER,
    IN_THE_THREADS,
    TARGETS,
    Target,
    advice,
    row,
    rungs_ahead,
)

PROBE = Case("heads of 256, in bfloat16", {"s": 2, "b": 4, "h": 8, "d": SHAPE[-1]}, torch.bfloat16)


class ReadsElements(Exception):
    """A launcher has read elements of the headline shape's tensors, which have no memory."""


@dataclass(frozen=True)
class Use:
    """A way to call `my_rope`."""

    rungs: range  # those that it is asked of
    words: str  # what a verdict on this use begins with
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


_WRAPS = "an offset of 32 bits, which wraps around: .to(tl.int64) on what is multiplied by a stride"
_ANY_INPUT = 7  # the first rung that takes strides and a tail
_FORWARD, _IN_PLACE, _BACKWARD = (range(first, _ANY_INPUT) for first in (1, 2, 4))
_FROM_THEN_ON = range(_ANY_INPUT, len(RUNGS) + 1)
_USES = (
    Use(_FORWARD, "", specs.rope_of_whole_rows),
    Use(_IN_PLACE, "in place, ", specs.rope_of_whole_rows_in_place, out="out"),
    Use(_BACKWARD, "backward, ", specs.gradient_of_whole_rows, transpose=True),
    Use(
        _BACKWARD,
        "backward in place, ",
        specs.gradient_of_whole_rows_in_place,
        transpose=True,
        out="out",
    ),
    Use(_FROM_THEN_ON, "", specs.rope_of_any_input),
    Use(_FROM_THEN_ON, "in place, ", specs.rope_of_any_input_in_place, out="out"),
    Use(_FROM_THEN_ON, "backward, ", specs.gradient_of_any_input, transpose=True),
    Use(
        _FROM_THEN_ON,
        "backward in place, ",
        specs.gradient_of_any_input_in_place,
        transpose=True,
        out="out",
    ),
)


def uses_of(rung: int) -> list[Use]:
    """The calls that a rung must support; the first one is the forward, out of place."""
    return [use for use in _USES if rung in use.rungs]


def check_rung(rung: int, candidate: Callable) -> Verdict:
    """Check your kernel for a rung, and keep its source if it is right.

    Values, addresses and the order of programs are checked as by `check_exercise`: from rung 2 on
    also in place, from rung 4 on also backward. Inputs that a rung can't take have to be refused.
    Then the rung's goal is checked in the interpreter, and in the machine code for an H200 at the
    headline shape. Without Triton's compiler, there is no machine code of your kernel. Then the
    verdict says what couldn't be checked, and the kernel is kept anyway.

    Args:
        rung: 1 to 7.
        candidate: `my_rope(t, freqs)`; from rung 2 on with a keyword `out`, from 4 on `transpose`.

    Raises:
        ValueError: there is no such rung.
    """
    rung_of(rung)
    if words := older_copy(rung):
        return Verdict(state=NOT_YET, reason=words, boxed=True)
    verdict = verdict_on_rung(rung, candidate, partial(_by_instruments, rung, candidate))
    if verdict.state not in (RIGHT, AS_INTERPRETED) or QUIET in os.environ:
        return verdict
    try:
        moved = kept.set_aside()
        kept.keep(rung, candidate)
        climb = replace(verdict.climb, row=str(row_of(rung)), follows=after_rung(rung))
        remark = "; ".join(filter(None, (verdict.remark, moved)))
        return replace(verdict, climb=climb, remark=remark)
    except (NotStandalone, OSError) as error:  # a partial, or a folder that may not be written
        words = f"it is not kept for the next notebook: {error}"
        return replace(verdict, remark="; ".join(filter(None, (verdict.remark, words))))


@dataclass(frozen=True)
class Shown:
    """What the instruments show of a kernel whose values are right."""

    values: Verdict  # on the values, with a remark for a kernel that is on its rung
    counted: Counted
    launch: Launch
    readings: dict[str, float]


def verdict_on_rung(
    rung: int, candidate: Callable, by_what_is_shown: Callable[[Shown], Verdict]
) -> Verdict:
    """The verdict on a kernel's values or, if all are right, on what the instruments show."""
    values, counted = verdict_on_values(rung, candidate)
    if not values:
        return values
    verdict = replace(values, remark="")
    try:
        launch, refused = only_launch(rung, candidate)
        if refused:
            reason = f"the values are right, but {refused}"
            return replace(verdict, state=NOT_YET, reason=reason)
        return by_what_is_shown(Shown(values, counted, launch, readings_of(counted, launch)))
    except (Exception, SystemExit) as error:  # whatever a reader's function may raise
        return said_instead(error, verdict)


def verdict_on_values(rung: int, candidate: Callable) -> Tried:
    """The verdict on values, addresses, collisions and order; `counted` if all are right.

    It is the first verdict that isn't right. If all are right, it is the forward's, with the right
    cases of every use and the first remark.
    """
    first, right, remark = None, (), ""
    for use in uses_of(rung):
        known = inspect.signature(candidate).parameters if use.keywords else {}
        if missing := next((name for name in use.keywords if name not in known), ""):
            reason = f"{getattr(candidate, '__name__', 'the function')} takes no `{missing}`"
            hint = f"add {missing}={use.keywords[missing]} to its arguments, and use it"
            return Tried(Verdict(state=NOT_YET, reason=reason, hint=hint, boxed=True))
        probe = None if first else PROBE
        verdict, counted = try_on_cases(use.of(candidate), use.wanted, out=use.out, probe=probe)
        right += tuple(use.words + case for case in verdict.cases.right)
        if not verdict:
            wrong = use.words + verdict.cases.wrong if verdict.cases.wrong else ""
            return Tried(replace(verdict, cases=replace(verdict.cases, right=right, wrong=wrong)))
        if verdict.remark:
            remark = remark or use.words + verdict.remark
        first = first or Tried(verdict, counted)
    cases = replace(first.verdict.cases, right=right)
    verdict = replace(first.verdict, cases=cases, remark=remark)
    if rung >= _ANY_INPUT:
        verdict = _with_far_apart(verdict, candidate)
    return Tried(verdict, first.counted)


def _with_far_apart(verdict: Verdict, candidate: Callable) -> Verdict:
    """The verdict on a kernel whose other values are right, after tensors with huge strides."""
    try:
        far = wrong_far_apart(candidate)
    except (Exception, SystemExit, TookTooLong) as error:  # whatever a reader's function may raise
        reason = f"with strides of 2^30 elements it {raised(error)}"
        return replace(verdict, state=WRONG, reason=reason, remark="")
    if far is None:
        words = "strides beyond 2^31 are not tried, because this machine has no memory for it"
        return replace(verdict, remark="; ".join(filter(None, (verdict.remark, words))))
    if not far:
        return verdict
    reason = f"{far} 2 is 2^31 elements after {far} 0, and comes out wrong"
    return replace(verdict, state=WRONG, reason=reason, remark="", looks_like=_WRAPS)


def only_launch(rung: int, candidate: Callable) -> tuple[Launch | None, str]:
    """The launch at the headline shape; or why its instructions can't be counted.

    Every use has to make one launch of the same kernel. The forward's instructions are counted.
    """
    forward = None
    for use in uses_of(rung):
        found = _at_the_headline(use, candidate)
        launches = found.launches
        if forward and all(launch.kernel is not forward.kernel for launch in launches):
            what, flag = ("the backward", " with a flag") if use.transpose else ("in place it", "")
            return None, f"{what} launches another kernel, where this one{flag} would do"
        if found.work:
            words = f"PyTorch runs {', '.join(found.work)}, where the kernel should"
            return None, f"{use.words}for {SHAPE} {words}"
        if len(launches) != 1:
            words = f"it makes {len(launches)} launches for {SHAPE}, expected 1"
            return None, use.words + words
        forward = forward or launches[0]
    if loop := loop_in(textwrap.dedent(inspect.getsource(forward.kernel.fn))):
        words = "instructions can't be counted through a loop; write rows as a tile, [:, None]"
        return None, f"{words}: {loop}"
    return forward, ""


def _at_the_headline(use: Use, candidate: Callable) -> Rehearsal:
    """What a use does at the headline shape."""
    call = use.of(candidate)
    try:
        return rehearsed(in_place(call, use.out) if use.out else call, headline, "meta")
    except (NotImplementedError, RuntimeError) as error:
        if "meta tensor" in str(error):  # PyTorch has no class for these errors
            raise ReadsElements from error
        raise


def _by_instruments(rung: int, candidate: Callable, shown: Shown) -> Verdict:
    """Whether a kernel whose values are right is on its rung, and on which later ones."""
    verdict, readings = shown.values, shown.readings
    read = [target for target in TARGETS[rung] if target.instrument in readings]
    missed = [target for target in read if not target.met(readings)]
    table = "\n".join(row(target, readings, target in missed) for target in TARGETS[rung])
    ahead = rungs_ahead(rung, readings)
    moved = ((number, TARGETS[number][0]) for number in ahead)
    said = (f"{one.instrument} {one.words}, as rung {number} requires" for number, one in moved)
    ahead_in_words = "; ".join(said)
    if not missed:
        count = len(verdict.cases.right)
        reason = f"rung {rung}, {rung_of(rung).change} ({count} cases)\n{table}"
        whole = [n for n in ahead if all(target.met(readings) for target in TARGETS[n])]
        speeds = [speed_here(candidate) or "yours is not timed here", speed_of_ours(rung)]
        if whole:
            speeds.append(speed_of_ours(whole[-1]))
        climb = replace(verdict.climb, ahead=ahead_in_words, speed="\n         ".join(speeds))
        verdict = replace(verdict, state=RIGHT, reason=reason, climb=climb)
        unread = len(TARGETS[rung]) - len(read)
        if unread:
            words = f"{unread} of {len(TARGETS[rung])} instruments read machine code, and Triton "
            words += "has no compiler here"
            remark = "; ".join(filter(None, (verdict.remark, words)))
            verdict = replace(verdict, state=AS_INTERPRETED, remark=remark)
        return verdict
    first = _explains(missed, readings)
    words = advice(first.instrument, readings, shown.counted, shown.launch)
    if rung in TO_FIND and _is_the_rung_below(rung, candidate, shown.launch):
        words = f"rung {rung - 1} as it was: for which edit is there evidence above the exercise?"
    reason = f"the values are right; rung {rung} requires {first.instrument} {first.words}"
    speed = speed_here(candidate, explained_by=first.instrument)
    return replace(
        verdict,
        state=NOT_YET,
        reason=f"{reason}\n{table}",
        remark="",
        looks_like=words,
        climb=replace(verdict.climb, ahead=ahead_in_words, speed=speed),
    )


def _is_the_rung_below(rung: int, candidate: Callable, launch: Launch) -> bool:
    """Whether kernel and launcher are still what the reader copied."""
    copied = kept.show_rung(rung - 1).text
    parts = [part for part in (launch.kernel.fn, candidate) if inspect.isfunction(part)]
    return all(inspect.getsource(part).strip() in copied for part in parts)


def _explains(missed: list[Target], readings: dict[str, float]) -> Target:
    """The missed target that explains the others: rows, then a wrong order, then the rung's."""
    if EIGHT_ROWS in missed:
        has_more_rows = readings["programs"] < EIGHT_ROWS.limit
        # too many rows explain every missed target; too few explain what threads repeat
        if has_more_rows or IN_THE_THREADS in (target.instrument for target in missed):
            return EIGHT_ROWS
    if IN_ORDER in missed:
        return IN_ORDER
    return missed[0]


def said_instead(error: BaseException, verdict: Verdict) -> Verdict:
    """The verdict on a kernel whose values are right, but whose code could not be read."""
    if isinstance(error, ReadsElements):
        reason = "the values are right, but it reads elements on the host, which makes a GPU wait"
        return replace(verdict, state=NOT_YET, reason=reason)
    if isinstance(error, Refused):
        return replace(verdict, state=WRONG, reason=does_not_compile(error))
    if isinstance(error, RuntimeError | TypeError):  # the launcher's
        reason = f"right in the interpreter, but for {SHAPE} it {raised(error)}"
        return replace(verdict, state=WRONG, reason=reason)
    reason = f"the values are right, but what it does on an H200 can't be read: {raised(error)}"
    return replace(verdict, state=NOT_YET, reason=reason)
