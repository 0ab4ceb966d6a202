"""What exercises of several notebooks ask for, and options that they share."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..spec import ZEROS_AND_SMALL, Case, spec

# Options that several specifications share.
# Case names for readers who have not met blocks yet: what 01 and 02 leave out.
BLOCKS = ("sizes that no block divides", "more elements than a block")
OTHER_SIZES = (
    Case("other sizes", {"s": 7, "b": 3, "h": 5, "d": 24, "base": 500}),
    Case("long rows", {"s": 3, "b": 2, "h": 3, "d": 200, "base": 500_000}),
)
A_ROW_OF_ZEROS = (Case(ZEROS_AND_SMALL, {"s": 3, "b": 2, "h": 3, "d": 24}, layout=ZEROS_AND_SMALL),)


@spec
def rotate_half(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), half by half."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


@spec
def rotate_half_of_neighbors(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), where x1 and x2 stand side by side."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


@spec(kernel=True, loads=2)
def rope(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The study's function: the first d2 elements rotated, the rest as it came."""
    return rotated(t, freqs[: t.shape[0]], rotate_half.function)


def _minus_of_halves(x, partner):
    first_half = torch.arange(x.shape[-1]) < x.shape[-1] // 2
    return torch.where(first_half, -x[..., partner], x[..., partner])


def _neighbors_with_minus_of_halves(x):
    place = torch.arange(x.shape[-1])
    return _minus_of_halves(x, place + 1 - 2 * (place % 2))


def _one_ahead_in_the_first_half(x):
    place = torch.arange(x.shape[-1])
    return _minus_of_halves(x, torch.where(place < len(place) // 2, place + 1, place - 1))


def _sign_of_halves(t, freqs):
    return rotated(t, freqs[: t.shape[0]], _neighbors_with_minus_of_halves)


def _partner_by_half(t, freqs):
    return rotated(t, freqs[: t.shape[0]], _one_ahead_in_the_first_half)


@spec(
    angles="pairs",
    kernel=True,
    loads=2,
    mistakes={
        "a sign: the minus is the first half's, where it is the first neighbor's": _sign_of_halves,
        "the wrong partner: whether it is ahead or back depends on the half": _partner_by_half,
    },
)
def rope_of_neighbors(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The same for the interleaved pairing."""
    return rotated(t, freqs[: t.shape[0]], rotate_half_of_neighbors.function)


@spec(kernel=True, loads=2)
def rope_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """From the gradient of `rope`'s result to that of `t`: the transposed map."""
    return rotated_back(grad, freqs[: grad.shape[0]], rotate_half.function)


@spec
def rope_of_q_and_k(q: "(s, b, h, d)", k: "(s, b, g, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of both; they may differ in the number of heads."""
    return rope.function(q, freqs), rope.function(k, freqs)


def rotated(t, angles, quarter_turn):
    """t with its first elements rotated, as many as there are angles."""
    rotary, tail = t[..., : angles.shape[-1]], t[..., angles.shape[-1] :]
    turned = rotary * angles.cos() + quarter_turn(rotary) * angles.sin()
    return torch.cat((turned.to(t.dtype), tail), dim=-1)


def rotated_back(grad, angles, quarter_turn):
    """The transposed map of `rotated`."""
    rotary, tail = grad[..., : angles.shape[-1]], grad[..., angles.shape[-1] :]
    back = rotary * angles.cos() - quarter_turn(rotary * angles.sin())
    return torch.cat((back.to(grad.dtype), tail), dim=-1)


def which_of(shows: dict[str, str], right: list[str], hint: str) -> dict:
    """What `check_choices` takes, for a mistake in each of several cases.

    Args:
        shows: each choice -> how that mistake shows, in whichever case.
        right: the mistake of each case.
        hint: what to think of.
    """
    mistakes = {words: len(right) * [mistake] for mistake, words in shows.items()}
    return {"right": right, "choices": list(shows), "hint": hint, "mistakes": mistakes}
