"""Specifications that several notebooks share, and their common options."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from .spec import CHANGED, LARGE, MANY, STRIDED, ZEROS_AND_SMALL, Case, spec

# Options that several specifications share.
# Cases that make sense only for kernels; 01 and 02, which come before kernels, leave them out.
BLOCKS = ("sizes that no block divides", "more elements than a block", CHANGED, MANY)
OTHER_SIZES = (
    Case("other sizes", {"s": 7, "b": 3, "h": 5, "d": 24}),
    Case("long rows", {"s": 3, "b": 2, "h": 3, "d": 200}),
)
A_ROW_OF_ZEROS = (Case(ZEROS_AND_SMALL, {"s": 3, "b": 2, "h": 3, "d": 24}, layout=ZEROS_AND_SMALL),)


@spec
def rotate_half(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), half by half."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


@spec(kernel=True)
def rope(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """TransformerEngine's function: the first d2 elements rotated, the rest unchanged."""
    return rotated(t, freqs[: t.shape[0]], rotate_half.function)


@spec(kernel=True)
def rope_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """From the gradient of `rope`'s result to that of `t`: the transposed map."""
    return rotated_back(grad, freqs[: grad.shape[0]], rotate_half.function)


@spec
def rope_of_q_and_k(q: "(s, b, h, d)", k: "(s, b, g, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of both; they may differ in the number of heads."""
    return rope.function(q, freqs), rope.function(k, freqs)


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    tolerance=(1e-5, 1e-5),  # the order of a sum of 4096 squares is free
    extra=(
        Case("rows of 1000", {"s": 3, "d": 1000}),
        Case("rows of 4096", {"s": 2, "d": 4096}),
        Case("large elements", {"s": 3, "d": 1000}, torch.float16, layout=LARGE),
        Case(ZEROS_AND_SMALL, {"s": 5, "d": 24}, layout=ZEROS_AND_SMALL),
    ),
)
def rms_norm_of_rows(x: "(s, d)", weight: "(d)"):
    """Each row over the root of its mean square, times a weight per column."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


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
