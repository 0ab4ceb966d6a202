"""Mistakes in answers to notebook 02."""

from . import Wrong

ANSWERS = [
    # the whole function
    Wrong(
        *(1, "no tail"),
        {"torch.cat([rotated.to(t.dtype), tail], dim=-1)": "rotated.to(t.dtype)"},
        "shape (5, 2, 3, 12), expected (5, 2, 3, 20)",
    ),
    Wrong(*(1, "zeros for a tail"), {", tail]": ", tail * 0]"}, "the tail is wrong: it is zero"),
    Wrong(
        *(1, "rounded before"),
        {"angles.cos()": "angles.cos().to(t.dtype)", "angles.sin()": "angles.sin().to(t.dtype)"},
        "rounding: compute in fp32",
    ),
    Wrong(
        *(1, "halves of the whole head"),
        {"rotate_half(rotary) *": "rotate_half(t)[..., :d2] *"},
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2",
    ),
]
NUMBERS = {
    2: [
        (12, "equation (3) as it is"),
        (6, "half of everything"),
    ],
}
