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
    Wrong(
        *(2, "the row lost"),
        {"tl.where(in_first_half, i + HALF, i - HALF)": "(i + HALF) % (2 * HALF)"},
        "every row takes the elements of the first one: % (2 * HALF) drops the row",
    ),
    Wrong(
        *(2, "the whole tensor for a row"),
        {"tl.where(in_first_half, i + HALF, i - HALF)": "(i + HALF) % n"},
        "the partner is sought in the whole tensor: % n does not stay in the row",
    ),
    Wrong(
        *(2, "always ahead"),
        {
            "tl.where(in_first_half, i + HALF, i - HALF)": "i + HALF",
            "partner, mask=exists": "partner, mask=partner < n",
        },
        "both halves look HALF ahead, and the second one has to look back",
    ),
    Wrong(
        *(2, "a row from its end"),
        {"tl.where(in_first_half, i + HALF, i - HALF)": "i - 2 * (i % (2 * HALF)) + 2 * HALF - 1"},
        "the row from its end: the first with the last",
    ),
    Wrong(
        *(2, "neighbors"),
        {"tl.where(in_first_half, i + HALF, i - HALF)": "i ^ 1"},
        "the partner is the neighbor, where HALF is",
    ),
    Wrong(
        *(2, "one too few"),
        {"i + HALF, i - HALF": "i + HALF - 1, i - HALF + 1"},
        "one element too few between partners",
    ),
    Wrong(
        *(2, "halves of the whole tensor"),
        {"i % (2 * HALF) < HALF": "i < HALF"},
        "the halves of the whole tensor: i % (2 * HALF) tells where in its row an element is",
    ),
    Wrong(
        *(2, "the ends of the tensor"),
        {"i + HALF, i - HALF": "tl.maximum(i - HALF, 0), tl.minimum(i + HALF, n - 1)"},
        "the wrong element: (0, 0, 0, 0) of the result takes x[0, 0, 0, 0], not x[0, 0, 0, 4]",
    ),
]
NUMBERS = {
    1: [
        ([128, 1024, 160], "the bytes that the lanes use"),
        ([512, 512, 160], "two lanes share a sector"),
    ],
}
