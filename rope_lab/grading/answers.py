"""Is a reader's number right? A verdict that does not give the number away."""

import math
from collections.abc import Mapping

from .verdict import NOT_YET, RIGHT, WRONG, Verdict


def check_answer(
    answer: object,
    right: object,
    *,
    unit: str = "",
    tolerance: float = 0.0,
    hint: str = "",
    mistakes: Mapping[str, object] | None = None,
) -> Verdict:
    """Compare a reader's answer with the right one, which the verdict keeps to itself.

    Args:
        answer: None where the reader has not answered yet. A number, a text, a truth value, or a
            list or tuple of such.
        right: the right answer, of the same kind.
        unit: what a number counts, "bytes" for example.
        tolerance: how far off a number may be, relative to the right one.
        hint: what to think of; said only where the answer is not right.
        mistakes: words for a likely mistake -> the answer, or the list of answers, that it leads
            to; None in a list where it leads to no wrong one. A wrong answer within the tolerance
            of one is told these words.
    """
    given = as_list(answer)
    if answer is None or (_is_list(given) and any(one is None for one in given)):
        each = " each" if _is_list(given) else ""
        return Verdict(state=NOT_YET, reason=f"put your answer in place of{each} None", boxed=True)
    if not _is_list(right):
        fields = _of_one(answer, right, tolerance, mistakes or {})
    else:
        fields = _of_lists(given, right, tolerance, mistakes or {})
    if fields:
        return Verdict(state=WRONG, hint=hint, boxed=True, **fields)
    reason = _said(given) + (f" {unit}" if unit and not _is_text(answer) else "")
    return Verdict(state=RIGHT, reason=reason, boxed=True)


def as_list(answer: object) -> object:
    """A tensor or an array of several numbers as a list; anything else as it is."""
    several = math.prod(getattr(answer, "shape", (1,))) > 1
    return answer.tolist() if several else answer


def wrong_count(answer: object, count: int) -> dict[str, str]:
    """A verdict's fields where so many answers are asked for and others came; else empty."""
    if not _is_list(answer):
        return {"reason": f"{count} answers are wanted, in a list"}
    if len(answer) != count:
        return {"reason": f"{count} answers are wanted, {len(answer)} came"}
    return {}


def _of_lists(answer: object, right: list, tolerance: float, mistakes: Mapping) -> dict[str, str]:
    """A verdict's fields about what is wrong first; empty if nothing is."""
    if fields := wrong_count(answer, len(right)):
        return fields
    for place, (one, wanted) in enumerate(zip(answer, right, strict=True)):
        of_this = {words: wrong[place] for words, wrong in mistakes.items()}
        if fields := _of_one(one, wanted, tolerance, of_this):
            return fields | {"place": f"answer {place + 1} of {len(right)}"}
    return {}


def _of_one(answer: object, right: object, tolerance: float, mistakes: Mapping) -> dict[str, str]:
    if math.prod(getattr(answer, "shape", (0,))) == 1:  # a tensor of one number, or NumPy's
        answer = answer.item()
    if not _is_number(right):
        return _of_a_word(answer, right, mistakes)
    if not _is_number(answer):
        return {"reason": f"a number is wanted, {answer!r} came"}
    if abs(answer - right) <= tolerance * abs(right):
        return {}
    size = "too large" if answer > right else "too small"
    if math.isnan(answer):
        size = "no number"
    fields = {"reason": f"{_said(answer)} is {size}{_how_far(answer, right)}"}
    near = {
        words: abs(answer - wrong)
        for words, wrong in mistakes.items()
        if wrong is not None and abs(answer - wrong) <= tolerance * abs(wrong)
    }
    return fields | {"looks_like": min(near, key=near.get)} if near else fields


def _of_a_word(answer: object, right: object, mistakes: Mapping) -> dict[str, str]:
    """The same for a text or a truth value."""
    if type(answer) is not type(right):
        wanted = "a text" if _is_text(right) else "True or False"
        return {"reason": f"{wanted} is wanted, {answer!r} came"}
    if plain(answer) == plain(right):
        return {}
    because = [words for words, wrong in mistakes.items() if plain(wrong) == plain(answer)]
    return {"reason": f"it is not {_said(answer)}", "because": "; ".join(because[:1])}


def plain(answer: object) -> object:
    """A text without case, brackets and quotes; anything else as it is."""
    return answer.strip(" ()'\"").casefold() if _is_text(answer) else answer


def _how_far(answer: float, right: float) -> str:
    if not (answer > 0 and right > 0):
        return ""
    ratio = max(answer / right, right / answer)
    return ", by far" if ratio >= 4 else ", but not far off" if ratio <= 1.1 else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _said(answer: object) -> str:
    if _is_list(answer):
        return ", ".join(_said(one) for one in answer)
    if isinstance(answer, int) and not isinstance(answer, bool):
        return f"{answer:,}".replace(",", " ")
    return answer.strip() if _is_text(answer) else str(answer)
