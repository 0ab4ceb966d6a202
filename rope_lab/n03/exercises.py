"""Notebook 03: bytes of three loads, and the reader's first reduction."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.spec import LARGE, STRIDED, Case, spec

# bytes that memory sends for three loads of a warp
_SENT_BYTES = {
    "the bytes that the threads use; memory sends whole sectors": {1: 128, 2: 64},
    "an aligned load; a late begin touches one sector more": {3: 128},
    "sectors, not bytes": {1: 16, 2: 32, 3: 5},
    "a sector for each thread; some threads share one": {1: 1024, 3: 1024},
    "whole cache lines; memory sends sectors of 32 bytes": {1: 2048, 2: 4096, 3: 256},
    "the elements take 4 bytes, but in bf16 they take 2": {2: 2048},
    "two threads share a sector, but here the elements are too far apart": {2: 512},
}

_SECTOR = 32  # the fewest bytes that memory sends
_THREADS = range(32)
_LOADS = (0, 4, 4), (0, 16, 2), (1, 1, 4)  # first element, elements between threads, bytes of one


def _sent(first: int, step: int, size: int) -> int:
    return _SECTOR * len({(first + step * thread) * size // _SECTOR for thread in _THREADS})


BYTES_OF_THREE_LOADS = {
    "right": [_sent(*load) for load in _LOADS],
    "unit": "bytes",
    "hint": "whole sectors, wherever the load begins",
    "mistakes": _SENT_BYTES,
}


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    tolerance=(1e-5, 1e-6),  # the order of a sum is free
    extra=(
        Case("rows of one element", {"s": 3, "d": 1}),
        Case("large elements", {"s": 5, "d": 24}, layout=LARGE),
    ),
)
def softmax(x: "(s, d)"):
    """Each row as positive numbers whose sum is 1."""
    return torch.softmax(x, dim=-1)
