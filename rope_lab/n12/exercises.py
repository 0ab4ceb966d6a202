"""Notebook 12: a kernel for heads before positions, and roundings."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.definitions import rope, rope_gradient
from ..judge.spec import spec

# Rungs need contiguous rows, so a copy is not an extra.
_OPTIONS = {
    "leave_out": ("part of the head rotated",),
    "kernel": True,
    "launches": 1,
    "copies": True,
}
_MEMORY = (
    "the wrong layout: the kernel reads memory as (s, b, h, d), "
    "and it is still stored as (b, h, s, d)"
)


def _memory_as_it_is(x, angles, rotate=rope.function):
    b, h, s, d = x.shape
    return rotate(x.reshape(s, b, h, d), angles).reshape(b, h, s, d)


def _gradient_of_memory_as_it_is(grad, angles):
    return _memory_as_it_is(grad, angles, rope_gradient.function)


def _gradient_of_the_sum(grad, angles):
    return rope_gradient_of_heads_first.function(torch.ones_like(grad), angles)


@spec(**_OPTIONS, mistakes={_MEMORY: _memory_as_it_is})
def rope_of_heads_first(x: "(b, h, s, d)", angles: "angles (s2, 1, 1, d2)"):
    """`rope` of (b, h, s, d), the layout of attention."""
    return rope.function(x.permute(2, 0, 1, 3), angles).permute(1, 2, 0, 3)


@spec(
    **_OPTIONS,
    mistakes={
        _MEMORY: _gradient_of_memory_as_it_is,
        "the gradient is ignored: each of its elements counts as 1": _gradient_of_the_sum,
    },
)
def rope_gradient_of_heads_first(grad: "(b, h, s, d)", angles: "angles (s2, 1, 1, d2)"):
    """The transpose of `rope_of_heads_first`."""
    return rope_gradient.function(grad.permute(2, 0, 1, 3), angles).permute(1, 2, 0, 3)


_FUSED = (
    "no PyTorch operator fuses a multiply-add (C's bits are the same here, because products of "
    "bf16 numbers are exact in fp32)"
)

# the rounding of three functions
ROUNDING = {
    "right": ["promoted", "model", "upcast"],
    "choices": ("once", "upcast", "promoted", "model"),
    "hint": "in which dtype is each product, and how many casts of x have a gradient?",
    "mistakes": {
        _FUSED: {1: "once", 2: "once", 3: "once"},
        "cos is fp32 here, so the products are not rounded to the dtype of x": {
            1: "model",
            3: "model",
        },
        "x is promoted once for each product, so two gradients are rounded, and then added": {
            1: "upcast"
        },
        "no operand here is fp32, so each product is rounded": {2: "upcast"},
        "that is right for its gradient, but no product here is fp32 in the forward": {
            2: "promoted"
        },
        "x is cast once, so its gradient is rounded once": {3: "promoted"},
    },
}
