"""Mistakes in answers to notebook 12."""

from . import Wrong

ANSWERS = [
    # a wrapper for a model
    Wrong(
        *(1, "no copy"),
        {"x.permute(2, 0, 1, 3).contiguous()": "x.permute(2, 0, 1, 3)"},
        "the wrong layout: the kernel reads memory as (s, b, h, d), and it is still (b, h, s, d)",
    ),
    Wrong(
        *(1, "ones for the gradient"),
        {"grad.permute": "torch.ones_like(grad).permute"},
        "the gradient is ignored: every element of it counts as 1",
    ),
]
NUMBERS = {
    2: [
        (["once", "model", "upcast"], "no PyTorch operator fuses a multiply-add"),
        (["model", "model", "upcast"], "so the products are not rounded to the dtype of x"),
    ],
}
