"""Did a reader choose the right category? The number of a category is no size."""

from collections.abc import Mapping, Sequence

from .verdict import NOT_YET, RIGHT, WRONG, Verdict


def check_choices(
    answers: Sequence[int | None],
    right: Sequence[int],
    choices: Mapping[int, str],
    hint: str = "",
) -> Verdict:
    """Compare a reader's choices with the right ones, which the verdict keeps to itself.

    Args:
        answers: the number of a choice for each question; None where the reader has not answered.
        right: the right numbers.
        choices: number -> what it stands for.
        hint: what to think of; said only where an answer is wrong.
    """
    if any(answer is None for answer in answers):
        return Verdict(state=NOT_YET, reason="put your answer in place of each None", boxed=True)
    if len(answers) != len(right):
        reason = f"{len(right)} answers are wanted, {len(answers)} came"
        return Verdict(state=WRONG, reason=reason, boxed=True)
    for place, (answer, wanted) in enumerate(zip(answers, right, strict=True), 1):
        if answer == wanted:
            continue
        reason = f"answer {place} of {len(right)}: "
        if answer in choices:
            reason += f"it is not {answer} ({choices[answer]}), it is another one"
        else:
            reason += f"{answer!r} is none of {', '.join(map(str, choices))}"
        reason += f"; think of {hint}" if hint else ""
        return Verdict(state=WRONG, reason=reason, boxed=True)
    said = ", ".join(f"{answer} ({choices[answer]})" for answer in answers)
    return Verdict(state=RIGHT, reason=said, boxed=True)
