"""Check an edit of `three_edits.ipynb`, and say in three lines what it changed."""

import ast
import inspect
from collections.abc import Callable
from functools import partial

from IPython.display import display

from ..compiler.instructions import warp_instructions
from ..judge.climb.check_rung import Shown, verdict_on_rung
from ..judge.climb.instruments import headline
from ..judge.climb.targets import EIGHT_ROWS, TARGETS, advice
from ..judge.rehearsal import rehearsed
from ..judge.verdict import AS_INTERPRETED, NOT_YET, RIGHT, WRONG, Verdict
from ..records import recorded
from ..rungs import RUNGS
from ..rungs.measured import KEY, speed_here
from .kernels import KERNELS
from .picture import BEFORE, RUNG_OF, time_after, times

KERNEL = "my_rope_kernel"  # its name in the notebook
TO_DO = {
    1: "Change num_warps, and run the cell again",
    2: "Move [None, :], and run the cell again",
    3: "Move three lines up, and run the cell again",
}
LOADS_OF_ANGLES = 2  # they come before the cosines from the start
# Triton's error if the angles are a row already and each sine gets `[None, :]` again.
THREE_DIMENSIONS = "Expected pointer argument to have shape ['constexpr[1]', "


def check(number: int, candidate: Callable) -> None:
    """Show the verdict on an edit and, if it is right, the times up to it.

    Args:
        number: 1 to 3.
        candidate: `my_rope`, which launches the notebook's kernel.
    """
    verdict = verdict_on(number, candidate)
    display(verdict)
    if verdict:
        times(number)


def verdict_on(number: int, candidate: Callable) -> Verdict:
    """The verdict on an edit. The kernel must also be right in every use of rung 3, which it has.

    No kernel is stored, and no rung is marked.
    """
    if _is_unchanged(number, candidate):
        return _not_yet(f"the kernel is unchanged. {TO_DO[number]}")
    on_the_edit = partial(_by_instruments, number, candidate)
    return _in_fewer_words(verdict_on_rung(RUNG_OF[1], candidate, on_the_edit))


def _by_instruments(number: int, candidate: Callable, shown: Shown) -> Verdict:
    """The verdict on an edit of a kernel whose results are right."""
    if words := _mistake(number, shown):
        return _not_yet(f"results are correct, but {words}")
    readings = shown.readings
    missed = [
        target
        for target in TARGETS[RUNG_OF[number]]
        if target.instrument in readings and not target.met(readings)
    ]
    if missed:
        words = advice(missed[0].instrument, readings, shown.counted, shown.launch)
        wanted = f"{missed[0].instrument} should be {missed[0].words}"
        return _not_yet(f"results are correct, but {wanted}\n  {words}".rstrip())
    return _right(number, candidate, shown)


def _loads(shown: Shown) -> tuple[list[str], list[str]]:
    """The lines of the loads before the first sine or cosine, and of those after it."""
    kinds = [event.kind for event in shown.counted.events]
    first = kinds.index("E") if "E" in kinds else len(kinds)
    early, late = shown.counted.events[:first], shown.counted.events[first:]
    return tuple([x.line for x in part if x.kind == "L"] for part in (early, late))


def _is_unchanged(number: int, candidate: Callable) -> bool:
    """Whether what an edit changes is still the original: the launcher, then the kernel."""
    if number == 1:
        return _code(candidate) == _code(RUNGS[BEFORE].module.my_rope)
    kernel = getattr(candidate, "__globals__", {}).get(KERNEL)
    return kernel is not None and _code(kernel.fn) == _code(KERNELS[number].fn)


def _code(function: Callable) -> str:
    """Its source without comments and blank lines."""
    try:
        return ast.unparse(ast.parse(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # the function has no source
        return ""


def _in_fewer_words(verdict: Verdict) -> Verdict:
    """Explain the mistake that edit 2 invites in the notebook's words."""
    if THREE_DIMENSIONS in verdict.reason:
        reason = "the cosines and sines have three dimensions, because the angles are a row already"
        hint = "Remove [None, :] from both loads of angles"
        return Verdict(state=WRONG, reason=f"{reason}. {hint}", boxed=True)
    return verdict


def _mistake(number: int, shown: Shown) -> str:
    """What is left to do, without the compiler, so also on macOS and Windows."""
    warps = shown.launch.num_warps
    if shown.launch.programs != EIGHT_ROWS.limit:
        return "a program no longer has 8 rows. Set block_r to 8, so that times can be compared"
    if warps > 1 and number > 1:
        return f"num_warps is {warps}. Make edit 1 first"
    if warps > 1:
        return f"{warps} warps compute the same sines and cosines. Try fewer"
    sines = [event for event in shown.counted.events if event.kind == "E"]
    of_a_tile = [event.line for event in sines if "," in event.of.strip("(),")]
    if number > 1 and of_a_tile:
        return f"[None, :] still comes before this computation:\n  {of_a_tile[0]}"
    _, late = _loads(shown)
    if number == 3 and late:
        return f"this line still comes after the first cosine. Move it up:\n  {late[0]}"
    return ""


def _right(number: int, candidate: Callable, shown: Shown) -> Verdict:
    """The verdict on a right edit: what has changed, and the recorded times."""
    if "instructions" not in shown.readings:
        reason = (
            f"edit {number}\n  Triton has no compiler on this system. The instructions of your "
            "kernel are not counted, and there is no time for it"
        )
        return Verdict(state=AS_INTERPRETED, reason=reason, boxed=True)
    if number == 3:  # it changes an order, not a count
        loads = len(_loads(shown)[0])
        changed = f"loads before the first cosine: {LOADS_OF_ANGLES} of {loads} -> all {loads}"
    else:
        now = int(shown.readings["instructions"]) * shown.launch.num_warps
        changed = f"instructions per program: {_before(number)} -> {now}"
    measured = recorded(KEY)
    us = [f"{time_after(edits, measured):.0f}" for edits in (number - 1, number)]
    told = f"on an H200: {' -> '.join(us)} us (recorded {measured.date})"
    lines = [f"edit {number}", changed, told, speed_here(candidate)]
    return Verdict(state=RIGHT, reason="\n  ".join(filter(None, lines)), boxed=True)


def _before(number: int) -> int:
    """Instructions of a program before an edit."""
    ours = RUNGS[RUNG_OF.get(number - 1, BEFORE)].module.my_rope
    (launch,) = rehearsed(ours, headline, "meta").launches
    return warp_instructions(launch.compiled()) * launch.num_warps


def _not_yet(reason: str) -> Verdict:
    return Verdict(state=NOT_YET, reason=reason, boxed=True)
