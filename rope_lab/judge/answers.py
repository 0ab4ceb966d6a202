"""Check a reader's numbers or choices; the verdict doesn't give the right ones away."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from .verdict import NOT_YET, RIGHT, WRONG, Verdict


def check_answer(
    answer: object,
    right: float | list[float],
    *,
    unit: str = "",
    tolerance: float = 0.0,
    hint: str = "",
    mistakes: Mapping[str, object] | None = None,
) -> Verdict:
    """Compare your number with the right one, which the verdict doesn't show.

    Args:
        answer: a number, or a list of numbers; None: not answered yet.
        right: the right number or numbers.
        unit: the unit of the numbers, such as "bytes".
        tolerance: the accepted relative error.
        hint: is shown if the answer is wrong.
        mistakes: explanation of a mistake -> the number that it leads to; for a list of numbers, a
            dict: place in the list, counted from 1 -> that number. The explanation is shown if the
            answer is within the tolerance of this number.
    """
    mistakes = mistakes or {}
    if not isinstance(right, list):
        answer, right = [answer], [right]
        mistakes = {words: {1: wrong} for words, wrong in mistakes.items()}
    verdict = _judged(answer, right, partial(_wrong_number, tolerance), mistakes, hint)
    if not verdict:
        return verdict
    return replace(verdict, reason=", ".join(map(_said, answer)) + f" {unit}" * bool(unit))


def check_choices(
    answers: object,
    right: Sequence,
    choices: Mapping[object, str] | Sequence[str],
    *,
    hint: str = "",
    mistakes: Mapping[str, Mapping[int, object]] | None = None,
) -> Verdict:
    """Compare your choices with the right ones, which the verdict doesn't show.

    Args:
        answers: a choice for each question; None: not answered yet.
        right: the right choices.
        choices: each choice -> its meaning; or a list of texts to choose from.
        hint: is shown if an answer is wrong.
        mistakes: explanation of a wrong choice -> the question, counted from 1 -> this choice.
    """

    def said(choice: object) -> str:
        return f"{choice} ({choices[choice]})" if isinstance(choices, Mapping) else str(choice)

    def wrong_choice(one: object, wanted: object, of_this: Mapping) -> dict[str, str]:
        if one == wanted:
            return {}
        if one not in choices:
            return {"reason": f"{one!r} is not one of {', '.join(map(str, choices))}"}
        because = next((words for words, wrong in of_this.items() if wrong == one), "")
        return {"reason": f"it is not {said(one)}", "because": because}

    verdict = _judged(answers, right, wrong_choice, mistakes or {}, hint)
    return replace(verdict, reason=", ".join(map(said, right))) if verdict else verdict


def _judged(
    answers: object, right: Sequence, wrong: Callable, mistakes: Mapping, hint: str
) -> Verdict:
    """A verdict on the first answer that is missing or wrong; `wrong` explains a wrong one."""
    given, count = answers if isinstance(answers, list | tuple) else [answers], len(right)
    if any(one is None for one in given):
        reason = f"put your answer in place of{' each' * (count > 1)} None"
        return Verdict(state=NOT_YET, reason=reason, boxed=True)
    if len(given) != count:
        reason = f"expected a list of {count} answers, got {len(given)}"
        return Verdict(state=WRONG, reason=reason, hint=hint, boxed=True)
    for number, (one, wanted) in enumerate(zip(given, right, strict=True), start=1):
        of_this = {
            words: of_each[number] for words, of_each in mistakes.items() if number in of_each
        }
        if fields := wrong(one, wanted, of_this):
            place = f"answer {number} of {count}" if count > 1 else ""
            return Verdict(state=WRONG, place=place, hint=hint, boxed=True, **fields)
    return Verdict(state=RIGHT, boxed=True)


def _wrong_number(
    tolerance: float, answer: object, right: float, mistakes: Mapping
) -> dict[str, str]:
    answer = _plain(answer)
    if not isinstance(answer, int | float) or isinstance(answer, bool):
        return {"reason": f"expected a number, got {answer!r}"}
    if abs(answer - right) <= tolerance * abs(right):
        return {}
    size = "too large" if answer > right else "too small"
    if math.isnan(answer):
        size = "not a number"
    elif answer > 0 and right > 0:
        ratio = max(answer / right, right / answer)
        size += ", by far" * (ratio >= 4) + ", but not far off" * (ratio <= 1.1)
    near = {
        words: abs(answer - wrong)
        for words, wrong in mistakes.items()
        if abs(answer - wrong) <= tolerance * abs(wrong)
    }
    looks_like = min(near, key=near.get, default="")
    shown = _said(answer) if _said(answer) != _said(right) else str(answer)
    return {"reason": f"{shown} is {size}", "looks_like": looks_like}


def _plain(answer: object) -> object:
    """The number, if the answer is a tensor or a NumPy array with one element."""
    return answer.item() if math.prod(getattr(answer, "shape", (0,))) == 1 else answer


def _said(answer: object) -> str:
    """'1 024', '49.5': four significant digits, and all digits before the point."""
    number = _plain(answer)
    if isinstance(number, float) and math.isfinite(number) and abs(number) >= 1000:
        number = round(number)
    return f"{number:,}".replace(",", " ") if isinstance(number, int) else f"{number:.4g}"
