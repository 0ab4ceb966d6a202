"""Notebook 06: which test finds a wrong backward."""

from collections.abc import Sequence

# the first of four tests that fails
FOUR_TESTS = {
    1: "ones, matching halves",
    2: "a random gradient, matching halves",
    3: "a random gradient, mismatched halves",
    4: "a transposed gradient, mismatched halves",
}


def first_to_fail(failed: Sequence[Sequence[int]]) -> dict[str, object]:
    """What `check_choices` needs, from the tests that each wrong backward fails."""
    mistakes = {}
    for test in FOUR_TESTS:
        passes = {place: test for place, one in enumerate(failed, 1) if test not in one}
        mistakes[f"this backward passes test {test}: what can't the test distinguish?"] = passes
        later = {place: test for place, one in enumerate(failed, 1) if test in one[1:]}
        mistakes[f"it fails test {test}, but another one fails before that"] = later
    return {
        "right": [one[0] for one in failed],
        "choices": FOUR_TESTS,
        "mistakes": mistakes,
        "hint": "what each test can't distinguish",
    }
