"""Notebook 03: bytes of three loads, and the reader's first gather."""

import torch

from ..judge.definitions import rotate_half
from ..judge.spec import STRIDED, spec

# exercise 1: bytes that memory sends for three loads of a warp
_SENT_BYTES = {
    "the bytes that the lanes use; memory sends whole sectors": {1: 128, 2: 64},
    "an aligned load; a late begin touches one sector more": {3: 128},
    "sectors, not bytes": {1: 16, 2: 32, 3: 5},
    "a sector for each lane; some lanes share one": {1: 1024, 3: 1024},
    "whole cache lines; memory sends sectors of 32 bytes": {1: 2048, 2: 4096, 3: 256},
    "the elements take 4 bytes, but in bf16 they take 2": {2: 2048},
    "two lanes share a sector, but here the elements are too far apart": {2: 512},
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


def _gathered(place):
    """A mistake: each element takes the one at `place(i, half, n)`, if there is one."""

    def mistaken(x):
        row, n = x.shape[-1], x.numel()
        i = torch.arange(n)
        partner = place(i, row // 2, n)
        exists = (partner >= 0) & (partner < n)
        taken = torch.where(exists, x.flatten()[partner.clamp(0, n - 1)], torch.nan)
        return torch.where(i % row < row // 2, -taken, taken).view_as(x)

    return mistaken


def _in_the_first_row(i, half, n):
    return (i + half) % (2 * half)


def _in_the_whole_tensor(i, half, n):
    return (i + half) % n


def _always_ahead(i, half, n):
    return i + half


def _from_its_end(i, half, n):
    return i - 2 * (i % (2 * half)) + 2 * half - 1


def _neighbor(i, half, n):
    return i + 1 - 2 * (i % 2)


def _one_too_few(i, half, n):
    return torch.where(i % (2 * half) < half, i + half - 1, i - half + 1)


def _halves_of_the_whole(x):
    i, half, values = torch.arange(x.numel()), x.shape[-1] // 2, x.flatten()
    return torch.where(i < half, -values[(i + half) % len(i)], values[i - half]).view_as(x)


# exercise 2, whose kernel takes a contiguous tensor for one long vector
rotate_half_gathered = spec(
    rotate_half.function,
    kernel=True,
    leave_out=STRIDED,
    mistakes={
        "every row takes the elements of the first one: % (2 * HALF) drops the row": (
            _gathered(_in_the_first_row)
        ),
        "the partner is sought in the whole tensor: % n does not stay in the row": (
            _gathered(_in_the_whole_tensor)
        ),
        "both halves look HALF ahead, and the second one has to look back": (
            _gathered(_always_ahead)
        ),
        "the row from its end: the first with the last, where HALF is between partners": (
            _gathered(_from_its_end)
        ),
        "the partner is the neighbor, where HALF is between partners": _gathered(_neighbor),
        "one element too few between partners": _gathered(_one_too_few),
        "the halves of the whole tensor: i % (2 * HALF) tells where in its row an element is": (
            _halves_of_the_whole
        ),
    },
)
