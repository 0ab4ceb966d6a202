"""Projections of every packing, format and layout."""

from inputs import contiguous

HEADS, KV_HEADS, D, S, B = 6, 3, 20, 7, 2
SHAPES = {"sbhd": (S, B), "bshd": (B, S), "thd": (S * B,)}
PACKINGS = "qkv", "grouped"


def projection(tensor_format, dtype, device, layout=contiguous, d=D):
    return layout((*SHAPES[tensor_format], (HEADS + 2 * KV_HEADS) * d), dtype, device)


def formats(inputs=tuple(SHAPES)):
    """Every legal pair of an input's and an output's format."""
    dense = "sbhd", "bshd", "bhsd"
    return [(x, y) for x in inputs for y in (*dense, *(["thd"] if x == "thd" else []))]
