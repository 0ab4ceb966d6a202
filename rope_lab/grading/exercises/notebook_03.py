"""Notebook 03: bytes of three loads, and the reader's first gather."""

from ..spec import STRIDED, spec
from .definitions import rotate_half

# exercise 1: bytes that memory sends for three loads of a warp
_SENT_BYTES = {
    "the bytes that the lanes use; memory sends whole sectors": [128, 64, None],
    "an aligned load; a late begin touches one sector more": [None, None, 128],
    "sectors, not bytes": [16, 32, 5],
    "a sector for each lane; some lanes share one": [1024, None, 1024],
    "whole cache lines; memory sends sectors of 32 bytes": [2048, 4096, 256],
    "the elements take 4 bytes, but in bf16 they take 2": [None, 2048, None],
    "two lanes share a sector, but here the elements are too far apart": [None, 512, None],
}

_SECTOR = 32  # bytes that memory sends at least
_LANES = range(32)
_LOADS = (0, 4, 4), (0, 16, 2), (1, 1, 4)  # first element, elements from lane to lane, bytes of one


def _sent(first: int, step: int, size: int) -> int:
    return _SECTOR * len({(first + step * lane) * size // _SECTOR for lane in _LANES})


BYTES_OF_THREE_LOADS = {
    "right": [_sent(*load) for load in _LOADS],
    "unit": "bytes",
    "hint": "whole sectors, wherever they begin",
    "mistakes": _SENT_BYTES,
}

# exercise 2, whose kernel takes a contiguous tensor for one long vector
rotate_half_gathered = spec(rotate_half.function, kernel=True, leave_out=STRIDED)
