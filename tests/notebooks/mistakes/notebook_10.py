"""Mistakes in answers to notebook 10."""

from . import Wrong

ANSWERS = [
    # a stride of another tensor
    Wrong(
        *(1, "the bug"),
        {"k_strides[1] + head * k_strides[2]": "k_strides[1] + head * q_strides[2]"},
        "in the case 'only q is a slice of wider rows'; 9 other cases are right\n"
        "  looks like: out of bounds: program (20, 6) reads element 1008 of k_ptr",
    ),
    Wrong(
        *(1, "k without strides"),
        {
            "k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]": ""
            "k_ptr + (token * k_heads + head) * 2 * HALF"
        },
        "a wrong stride: it reads the memory as if the tensor were contiguous",
    ),
    # an exam
    Wrong(*(2, "none"), {}, "the table's length: right for a table that ends with the sequence"),
    Wrong(
        *(2, "all rows for one position"),
        {"out.numel() // (positions * d)": "out.numel() // d"},
        "the wrong position: the angle is that of 0, the first position",
    ),
]
