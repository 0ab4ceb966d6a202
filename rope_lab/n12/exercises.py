"""Notebook 12: a kernel for heads before positions, and roundings."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.definitions import rope, rope_gradient
from ..judge.spec import spec

_OPTIONS = {"leave_out": ("part of the head rotated",), "kernel": True, "launches": 1}


@spec(**_OPTIONS)
def rope_of_heads_first(x: "(b, h, s, d)", angles: "angles (s2, 1, 1, d2)"):
    """`rope` of (b, h, s, d), the layout of attention."""
    return rope.function(x.permute(2, 0, 1, 3), angles).permute(1, 2, 0, 3)


@spec(**_OPTIONS)
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
