"""Notebook 03: bytes of three loads, and the reader's first gather."""

import torch

from ..judge.definitions import rotate_half
from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..judge.spec import STRIDED, spec

# bytes that memory sends for three loads of a warp
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


HOW_MANY_BYTES = Exercise(
    cell="03-ex2",
    judged_by=BYTES_OF_THREE_LOADS,
    wrong_answers=(
        WrongValue(given=[128, 1024, 160], told="the bytes that the lanes use"),
        WrongValue(given=[512, 512, 160], told="two lanes share a sector"),
    ),
)


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


# The kernel takes a contiguous tensor for one long vector.
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


YOUR_OWN_GATHER = Exercise(
    cell="03-ex3",
    judged_by=rotate_half_gathered,
    wrong_answers=(
        WrongAnswer(
            mistake="the partner as it is",
            instead={"sign * x": "x"},
            told="a sign: what is wrong has the opposite sign, in the first half",
        ),
        WrongAnswer(
            mistake="the signs of the halves swapped",
            instead={"in_first_half, -1, 1": "in_first_half, 1, -1"},
            told="every element has the opposite sign",
        ),
        WrongAnswer(
            mistake="the element itself",
            instead={"tl.where(in_first_half, i + HALF, i - HALF)": "i"},
            told="halves swapped, and a sign: each half is where the other should be",
        ),
        WrongAnswer(
            mistake="the row lost",
            instead={"tl.where(in_first_half, i + HALF, i - HALF)": "(i + HALF) % (2 * HALF)"},
            told="every row takes the elements of the first one: % (2 * HALF) drops the row",
        ),
        WrongAnswer(
            mistake="the whole tensor for a row",
            instead={"tl.where(in_first_half, i + HALF, i - HALF)": "(i + HALF) % n"},
            told="the partner is sought in the whole tensor: % n does not stay in the row",
        ),
        WrongAnswer(
            mistake="always ahead",
            instead={
                "tl.where(in_first_half, i + HALF, i - HALF)": "i + HALF",
                "partner, mask=exists": "partner, mask=partner < n",
            },
            told="both halves look HALF ahead, and the second one has to look back",
        ),
        WrongAnswer(
            mistake="a row from its end",
            instead={
                "tl.where(in_first_half, i + HALF, i - HALF)": (
                    "i - 2 * (i % (2 * HALF)) + 2 * HALF - 1"
                )
            },
            told="the row from its end: the first with the last",
        ),
        WrongAnswer(
            mistake="neighbors",
            instead={"tl.where(in_first_half, i + HALF, i - HALF)": "i ^ 1"},
            told="the partner is the neighbor, where HALF is",
        ),
        WrongAnswer(
            mistake="one too few",
            instead={"i + HALF, i - HALF": "i + HALF - 1, i - HALF + 1"},
            told="one element too few between partners",
        ),
        WrongAnswer(
            mistake="halves of the whole tensor",
            instead={"i % (2 * HALF) < HALF": "i < HALF"},
            told="the halves of the whole tensor: i % (2 * HALF) tells where in its row an "
            "element is",
        ),
        WrongAnswer(
            mistake="the ends of the tensor",
            instead={"i + HALF, i - HALF": "tl.maximum(i - HALF, 0), tl.minimum(i + HALF, n - 1)"},
            told="the wrong element: (0, 0, 0, 0) of the result takes x[0, 0, 0, 0], not "
            "x[0, 0, 0, 4]",
        ),
    ),
)
