"""What the first exercises of notebook 12 are compared with."""

from ..profiling.model_runs import ROUNDINGS

_FUSED = (
    "no PyTorch operator fuses a multiply-add (C's bits are the same here, because products of "
    "bf16 numbers are exact in fp32)"
)

# exercise 2: the rounding of three functions
ROUNDING = {
    "right": ["promoted", "model", "upcast"],
    "choices": ROUNDINGS,
    "hint": "in which dtype is each product, and how many casts of x have a gradient?",
    "mistakes": {
        _FUSED: 3 * ["once"],
        "cos is fp32 here, so the products are not rounded to the dtype of x": [
            *("model", None, "model")
        ],
        "x is promoted once for each product, so two gradients are rounded, and then added": [
            *("upcast", None, None)
        ],
        "nothing here is fp32, so each product is rounded": [None, "upcast", None],
        "its gradient is rounded so, but forward no product here is fp32": [None, "promoted", None],
        "x is cast once, so its gradient is rounded once": [None, None, "promoted"],
    },
}
