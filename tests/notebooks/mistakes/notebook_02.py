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
    Wrong(
        *(1, "half of the equation"),
        {" + rotate_half(rotary) * angles.sin()": ""},
        "half of it is missing: the product with the sine",
    ),
    Wrong(
        *(1, "no rotate_half"),
        {"rotate_half(rotary) *": "rotary *"},
        "the partner is missing: the sine multiplies the element itself",
    ),
    Wrong(
        *(1, "angles in the tensor's dtype"),
        {"angles = freqs[:s]": "angles = freqs[:s].to(t.dtype)"},
        "too few digits: the angles are rounded to half precision before sin and cos",
    ),
    Wrong(
        *(1, "the tail first"),
        {"[rotated.to(t.dtype), tail]": "[tail, rotated.to(t.dtype)]"},
        "the wrong order: the tail comes first",
    ),
    Wrong(
        *(1, "the last elements rotated"),
        {"t[..., :d2], t[..., d2:]": "t[..., -d2:], t[..., :-d2]"},
        "the wrong part: the last d2 elements are turned, where the first are asked for",
    ),
    Wrong(
        *(1, "in place"),
        {"rotated = rotary * angles.cos()": "rotated = rotary.mul_(angles.cos())"},
        "an input is overwritten: t",
    ),
]
NUMBERS = {
    2: [
        (12, "equation (3) as it is"),
        (6, "half of everything"),
    ],
}
