"""Mistakes in answers to notebook 03."""

from . import Wrong

ANSWERS = [
    # rotate_half in Triton
    Wrong(
        *(2, "the partner as it is"),
        {"sign * x": "x"},
        "a sign: what is wrong has the opposite sign, in the first half",
    ),
    Wrong(
        *(2, "the signs of the halves swapped"),
        {"in_first_half, -1, 1": "in_first_half, 1, -1"},
        "every element has the opposite sign",
    ),
    Wrong(
        *(2, "the element itself"),
        {"tl.where(in_first_half, i + HALF, i - HALF)": "i"},
        "halves swapped, and a sign: each half is where the other should be",
    ),
]
NUMBERS = {
    1: [
        ([128, 1024, 160], "the bytes that the lanes use"),
        ([512, 512, 160], "two lanes share a sector"),
    ],
}
