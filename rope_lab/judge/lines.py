"""Mistakes in a line of a kernel that a reader writes, as that line.

    rope_by_lines(partner="column + D2 // 2")

is a function for a specification's `mistakes`: rung 1 in PyTorch, with this line in place of its
own. It computes all elements at once. A load outside of its tensor gives NaN, and a store there
does nothing, as in the run by which the judge explains one.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

_ROTATE_HALF = {  # notebook 03: an element of a contiguous tensor, by its row and its column
    "row": "i // (2 * HALF)",
    "column": "i % (2 * HALF)",
    "in_first_half": "column < HALF",
    "partner": "where(in_first_half, column + HALF, column - HALF)",
    "sign": "where(in_first_half, -1, 1)",
    "x": "load(x_ptr, row * 2 * HALF + partner)",
    "y": "sign * x",
    "place": "row * 2 * HALF + column",  # where y is stored
}
_ELEMENT = {  # notebook 04: an element of a tensor of any strides
    "column": "i % D",
    "head": "i // D % heads",
    "sequence": "i // (D * heads) % batch",
    "position": "i // (D * heads * batch)",
    "row": "position * stride_s + sequence * stride_b + head * stride_h",
    "x": "load(t_ptr, row + column * stride_d)",
}
_COPY = _ELEMENT | {"y": "x", "place": "i"}
_ROPE = _ELEMENT | {
    "rotates": "column < D2",
    "in_first_half": "column < D2 // 2",
    "partner": "where(in_first_half, column + D2 // 2, column - D2 // 2)",
    "other": "load(t_ptr, row + partner * stride_d, rotates)",
    "angle": "load(freqs_ptr, position * D2 + column, rotates)",
    "quarter": "where(in_first_half, -other, other)",
    "y": "x * cos(angle) + quarter * sin(angle)",
    "place": "i",
}


def rotate_half_by_lines(**lines: str) -> Callable[[Tensor], Tensor]:
    """`rotate_half` with other lines: name -> what the kernel sets it to."""

    def mistaken(x):
        columns = x.shape[-1]
        known = {
            "x_ptr": x,
            "rows": x.numel() // columns,
            "HALF": columns // 2,
            "BLOCK_C": 2 ** math.ceil(math.log2(columns)),
        }
        return _computed(x, _ROTATE_HALF | lines, known)

    return mistaken


def copy_by_lines(**lines: str) -> Callable[[Tensor], Tensor]:
    """The copy of a tensor with other lines."""

    def mistaken(t):
        return _computed(t, _COPY | lines, _sizes(t))

    return mistaken


def rope_by_lines(**lines: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Rung 1 with other lines."""

    def mistaken(t, freqs):
        known = _sizes(t) | {"freqs_ptr": freqs, "D2": freqs.shape[-1]}
        return _computed(t, _ROPE | lines, known)

    return mistaken


def _sizes(t: Tensor) -> dict[str, object]:
    names = "stride_s", "stride_b", "stride_h", "stride_d"
    strides = dict(zip(names, t.stride(), strict=True))
    _, batch, heads, d = t.shape
    return strides | {"t_ptr": t, "n": t.numel(), "batch": batch, "heads": heads, "D": d}


def _computed(like: Tensor, lines: dict[str, str], known: dict[str, object]) -> Tensor:
    """What is stored, in the shape of `like`: y at each place, in the order of elements."""
    names = {"where": torch.where, "cos": torch.cos, "sin": torch.sin, "load": _load}
    names |= known | {"i": torch.arange(like.numel())}
    for name, line in lines.items():
        names[name] = eval(line, names)
    y, place = names["y"], names["place"]
    is_inside = (place >= 0) & (place < len(y))
    stored = torch.full_like(y, torch.nan)
    stored[place[is_inside]] = y[is_inside]
    return stored.view(like.shape)


def _load(x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
    """NaN where that is no memory of x, and 0 where the mask is false."""
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    at = (x.storage_offset() + offset).long()
    inside = (at >= 0) & (at < len(memory))
    loaded = torch.where(inside, memory[at.clamp(0, len(memory) - 1)], torch.nan)
    return loaded if mask is None else torch.where(mask, loaded, 0)
