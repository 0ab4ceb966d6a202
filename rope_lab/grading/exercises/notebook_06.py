"""Notebook 06: gradients, and three sections of positions forth and back."""
# ruff: noqa: F821 (the letters of shapes)

from collections.abc import Sequence

import torch

from ..spec import STRIDED, Case, spec
from .definitions import rope, rope_gradient, rotate_half, rotated, rotated_back


@spec(leave_out=("part of the head rotated",), kernel=True)
def rope_gradient_of_whole_heads(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_gradient`, and every head was rotated as a whole."""
    return rope_gradient.function(grad, freqs)


# sections of 2, 3 and 5: what the division leaves goes last
_TEN_PAIRS = Case("ten pairs", {"s": 4, "b": 2, "h": 2, "d": 20, "n": 64})


@spec(extra=(_TEN_PAIRS,), kernel=True)
def rope_in_three_sections(
    t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (3, b, s)"
):
    """M-RoPE: time, height and width turn a quarter, then three eighths of the pairs each.

    Source: Qwen2-VL, section 2.1; its 16, 24 and 24 pairs of 64. What does not divide goes last.
    """
    return rotated(t, _angles_in_three_sections(freqs, position_ids), rotate_half.function)


@spec(extra=(_TEN_PAIRS,), kernel=True)
def rope_in_three_sections_gradient(
    grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (3, b, s)"
):
    """The transpose of `rope_in_three_sections`."""
    angles = _angles_in_three_sections(freqs, position_ids)
    return rotated_back(grad, angles, rotate_half.function)


def _angles_in_three_sections(freqs, position_ids):
    pairs = freqs.shape[-1] // 2
    ends = pairs // 4, pairs // 4 + 3 * pairs // 8
    section = torch.bucketize(
        torch.arange(pairs, device=freqs.device),
        torch.tensor(ends, device=freqs.device),
        right=True,
    )
    by_section = freqs[position_ids, 0, 0].permute(2, 1, 0, 3)  # (s, b, 3, d2)
    section = section.repeat(2).expand(*by_section.shape[:2], 1, -1)
    return by_section.gather(2, section)


def _seven_times(t, freqs):
    for _ in range(7):
        t = rope.function(t, freqs)
    return t


@spec(
    leave_out=(*STRIDED, "part of the head rotated"),
    overwrites=("t",),
    kernel=True,
    asks=("autotune",),
    launches=20,  # those of the tuning among them
    loads=20,
    mistakes={
        "rotated 7 times: 6 runs of the tuning come before the one that counts": _seven_times
    },
)
def rope_of_whole_rows_tuned(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` in place; the candidate's autotuner runs two configurations three times each."""
    return rope.function(t, freqs)


# exercise 3: the first of four tests that fails
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
        passes = [test if test not in one else None for one in failed]
        mistakes[f"this backward passes test {test}: what does the test not tell apart?"] = passes
        later = [test if test in one[1:] else None for one in failed]
        mistakes[f"it fails test {test}, but another one fails before that"] = later
    return {
        "right": [one[0] for one in failed],
        "choices": FOUR_TESTS,
        "mistakes": mistakes,
        "hint": "what each test cannot tell apart",
    }
