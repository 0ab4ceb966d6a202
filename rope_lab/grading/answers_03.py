"""What exercise 1 of notebook 03 is compared with, kept out of the reader's cell."""

from .mistakes import SENT_BYTES

_SECTOR = 32  # bytes that memory sends at least
_LANES = range(32)
_LOADS = (0, 4, 4), (0, 16, 2), (1, 1, 4)  # first element, elements from lane to lane, bytes of one


def _sent(first: int, step: int, size: int) -> int:
    return _SECTOR * len({(first + step * lane) * size // _SECTOR for lane in _LANES})


BYTES_OF_THREE_LOADS = {
    "right": [_sent(*load) for load in _LOADS],
    "unit": "bytes",
    "hint": "whole sectors, wherever they begin",
    "mistakes": SENT_BYTES,
}
