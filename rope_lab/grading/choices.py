"""Did a reader choose the right category? The number of a category is no size."""

from collections.abc import Mapping, Sequence

from .answers import as_list, plain, wrong_count
from .verdict import NOT_YET, RIGHT, WRONG, Verdict


def check_choices(
    answers: object,
    right: object,
    choices: Mapping[object, str] | Sequence[str],
    *,
    hint: str = "",
    mistakes: Mapping[str, Sequence] | None = None,
) -> Verdict:
    """Compare a reader's choices with the right ones, which the verdict keeps to itself.

    Args:
        answers: a choice for each question, or the one choice; None where the reader has not
            answered.
        right: the right choices, or the right one.
        choices: each choice -> what it stands for; or texts that stand for themselves.
        hint: what to think of; said only where an answer is wrong.
        mistakes: words that say why a choice is wrong -> that choice for each question, None where
            they say nothing; for one question, the choice.
    """
    if not isinstance(right, list | tuple):
        one = answers if isinstance(answers, list | tuple) else [answers]
        of_one = {words: [wrong] for words, wrong in (mistakes or {}).items()}
        return check_choices(one, [right], choices, hint=hint, mistakes=of_one)
    given = as_list(answers)
    if given is None or (isinstance(given, list | tuple) and None in given):
        each = " each" if len(right) > 1 else ""
        return Verdict(state=NOT_YET, reason=f"put your answer in place of{each} None", boxed=True)
    fields = wrong_count(given, len(right))
    if not fields:
        fields = _first_wrong(given, right, choices, mistakes or {})
    if fields:
        return Verdict(state=WRONG, hint=hint, boxed=True, **fields)
    said = ", ".join(_said(answer, choices) for answer in right)
    return Verdict(state=RIGHT, reason=said, boxed=True)


def _first_wrong(
    answers: Sequence, right: Sequence, choices: Mapping | Sequence, mistakes: Mapping
) -> dict[str, str]:
    """A verdict's fields about the first wrong choice; empty if all are right."""
    for number, (answer, wanted) in enumerate(zip(answers, right, strict=True)):
        if plain(answer) == plain(wanted):
            continue
        place = f"answer {number + 1} of {len(right)}" if len(right) > 1 else ""
        known = next((choice for choice in choices if plain(choice) == plain(answer)), None)
        if known is None:
            accepted = ", ".join(map(str, choices))
            return {"place": place, "reason": f"{answer!r} is none of {accepted}"}
        because = [words for words, wrong in mistakes.items() if wrong[number] == known]
        return {
            "place": place,
            "reason": f"it is not {_said(known, choices)}",
            "because": "; ".join(because[:1]),
        }
    return {}


def _said(choice: object, choices: Mapping | Sequence) -> str:
    return f"{choice} ({choices[choice]})" if isinstance(choices, Mapping) else str(choice)
