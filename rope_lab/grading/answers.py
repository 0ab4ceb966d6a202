"""Is a reader's number right? A verdict that does not give the number away."""

import math

from .verdict import NOT_YET, RIGHT, WRONG, Verdict


def check_answer(
    answer: object,
    right: object,
    *,
    unit: str = "",
    tolerance: float = 0.0,
    hint: str = "",
    mistakes: dict[str, object] | None = None,
) -> Verdict:
    """Compare a reader's answer with the right one, which the verdict keeps to itself.

    Args:
        answer: None where the reader has not answered yet. A number, a text, a truth value, or a
            list or tuple of such.
        right: the right answer, of the same kind.
        unit: what a number counts, "bytes" for example.
        tolerance: how far off a number may be, as a share of the right one.
        hint: what to think of; said only where the answer is not right.
        mistakes: words for a likely mistake -> the answer, or the list of answers, that it leads
            to. A wrong answer within the tolerance of one is told these words.
    """
    if answer is None or (_is_list(answer) and any(one is None for one in answer)):
        each = " each" if _is_list(answer) else ""
        return _verdict(NOT_YET, f"put your answer in place of{each} None")
    named = mistakes or {}
    if _is_list(right):
        reason = _of_lists(answer, right, tolerance, named)
    else:
        reason = _of_one(answer, right, tolerance, named)
    if reason:
        return _verdict(WRONG, reason + (f"; think of {hint}" if hint else ""))
    return _verdict(RIGHT, _said(answer) + (f" {unit}" if unit and not _is_text(answer) else ""))


def _verdict(state: str, reason: str) -> Verdict:
    return Verdict(state=state, reason=reason, boxed=True)


def _of_lists(answer: object, right: object, tolerance: float, mistakes: dict) -> str:
    """What is wrong; empty if nothing is."""
    if not _is_list(answer):
        return f"{len(right)} answers are wanted, in a list"
    if len(answer) != len(right):
        return f"{len(right)} answers are wanted, {len(answer)} came"
    for place, (one, wanted) in enumerate(zip(answer, right, strict=True)):
        of_this = {words: wrong[place] for words, wrong in mistakes.items()}
        reason = _of_one(one, wanted, tolerance, of_this)
        if reason:
            return f"answer {place + 1} of {len(right)}: {reason}"
    return ""


def _of_one(answer: object, right: object, tolerance: float, mistakes: dict) -> str:
    if math.prod(getattr(answer, "shape", (0,))) == 1:  # a tensor of one number, or NumPy's
        answer = answer.item()
    if not _is_number(right):
        right_kind = "a text" if _is_text(right) else "True or False"
        if type(answer) is not type(right):
            return f"{right_kind} is wanted, {answer!r} came"
        if _is_text(right):
            agrees = answer.strip().casefold() == right.strip().casefold()
        else:
            agrees = answer == right
        return "" if agrees else f"it is not {_said(answer)}"
    if not _is_number(answer):
        return f"a number is wanted, {answer!r} came"
    if abs(answer - right) <= tolerance * abs(right):
        return ""
    for words, wrong in mistakes.items():
        if abs(answer - wrong) <= tolerance * abs(wrong):
            return f"{_said(answer)} looks like this mistake: {words}"
    size = "too large" if answer > right else "too small"
    far = ""
    if answer > 0 and right > 0:
        ratio = max(answer / right, right / answer)
        far = ", by far" if ratio >= 4 else ", but not far off" if ratio <= 1.1 else ""
    return f"{_said(answer)} is {size}{far}"


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
