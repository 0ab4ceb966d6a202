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

from .definitions import rope, rotate_half, rotated

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
    "x_partner": "load(t_ptr, row + partner * stride_d, rotates)",
    "angle": "load(freqs_ptr, position * D2 + column, rotates)",
    "quarter": "where(in_first_half, -x_partner, x_partner)",
    "y": "x * cos(angle) + quarter * sin(angle)",
    "place": "i",
}
_PAIR = {  # notebook 05: a lane owns both members of a pair, and `row` counts all rows of t
    "position": "row // rows",
    "row_ptr": "row * 2 * HALF",
    "offset": "row_ptr + pair",  # of the first member
    "second": "HALF",  # how far the second member is from the first one
    "x1": "load(t_ptr, offset)",
    "x2": "load(t_ptr, offset + second)",
    "angle_ptr": "position * 2 * HALF",
    "angle1": "load(freqs_ptr, angle_ptr + pair)",
    "angle2": "load(freqs_ptr, angle_ptr + pair + second)",
    "y1": "x1 * cos(angle1) - x2 * sin(angle1)",
    "y2": "x2 * cos(angle2) + x1 * sin(angle2)",
    "place1": "offset",  # where y1 is stored
    "place2": "offset + second",
}

_KEYS = {  # notebooks 05 and 10: programs from q_rows on have a row of k each
    "row": "program - q_rows",
    "heads": "k_heads",
    "strides": "k_strides",
    "t_ptr": "k_ptr",
    "position": "row // (batch * heads)",
    "sequence": "row // heads % batch",
    "head": "row % heads",
    "row_ptr": "position * strides[0] + sequence * strides[1] + head * strides[2]",
    "place": "row",  # of the result
}


def rotate_half_by_lines(**lines: str) -> Callable[[Tensor], Tensor]:
    """`rotate_half` with other lines: name -> what the kernel sets it to."""

    def mistaken(x):
        columns = x.shape[-1]
        known = {
            "x_ptr": x,
            "rows": x.numel() // columns,
            "HALF": columns // 2,
            "BLOCK_R": 4,  # what the stub's launcher takes
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


def pairs_by_lines(
    rows_a_program: int = 1, has_whole_blocks: bool = False, **lines: str
) -> Callable[[Tensor, Tensor], Tensor]:
    """Rungs 2 and 3 with other lines.

    Where two programs store one element, the later one's stays, as in the interpreter.

    Args:
        rows_a_program: 1 is rung 2; of rung 3 each program has so many rows of one position.
        has_whole_blocks: lanes past the last pair of a row load and store, too. They have no
            angles, so they store NaN.
        lines: name -> what the kernel sets it to; `row` counts all rows of t.
    """

    def mistaken(t, freqs):
        _, batch, heads, d = t.shape
        half, block = d // 2, 2 ** math.ceil(math.log2(d // 2))
        width = block if has_whole_blocks else half
        lane = torch.arange(t.numel() // d * width)
        names = {"cos": torch.cos, "sin": torch.sin, "load": _load}
        names |= {"t_ptr": t, "freqs_ptr": freqs, "rows": batch * heads, "HALF": half}
        names |= {"BLOCK_HALF": block, "BLOCK_R": rows_a_program}
        names |= {"row": lane // width, "pair": lane % width}
        for name, line in (_PAIR | lines).items():
            names[name] = eval(line, names)
            if name in ("angle1", "angle2"):
                names[name] = torch.where(names["pair"] < half, names[name], torch.nan)
        places = torch.stack((names["place1"], names["place2"]))
        y = torch.stack((names["y1"], names["y2"]))
        position, of_position = names["row"] // names["rows"], names["row"] % names["rows"]
        blocks = -(-names["rows"] // rows_a_program)
        program = position * blocks + of_position // rows_a_program
        order = torch.stack((2 * program, 2 * program + 1)).flatten().argsort(stable=True)
        return _stored(t, y.flatten()[order], places.flatten()[order])

    return mistaken


def keys_by_lines(
    goes_to_q: bool = False, **lines: str
) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """One launch for q and k, with other lines where a program has a row of k.

    Args:
        goes_to_q: k's rows are stored in the result of q.
        lines: name -> what the kernel sets it to.
    """

    def mistaken(q, k, freqs):
        (_, batch, heads, d), d2 = q.shape, freqs.shape[-1]
        q_rows, rows = q.numel() // d, k.numel() // d
        names = {"q_ptr": q, "q_heads": heads, "q_strides": q.stride(), "q_rows": q_rows}
        names |= {"k_ptr": k, "k_heads": k.shape[2], "k_strides": k.stride(), "batch": batch}
        names |= {"where": torch.where, "program": torch.arange(q_rows, q_rows + rows)[:, None]}
        for name, line in (_KEYS | lines).items():
            names[name] = eval(line, names)
        column = torch.arange(d)
        x = _load(names["t_ptr"], names["row_ptr"] + column * names["strides"][3])
        angles = _load(freqs, names["position"] * d2 + column[:d2])
        y = rotated(x, angles, rotate_half.function).flatten()
        place = (names["place"] * d + column).flatten()
        q_out, k_out = rope.function(q, freqs).contiguous(), torch.full_like(k, torch.nan)
        if not goes_to_q:
            return q_out, _stored(k, y, place)
        is_inside = (place >= 0) & (place < q.numel())
        q_out.view(-1)[place[is_inside]] = y[is_inside]
        return q_out, k_out

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
    return _stored(like, names["y"], names["place"])


def _stored(like: Tensor, y: Tensor, place: Tensor) -> Tensor:
    """What is stored, in the shape of `like`: y at each place; a later one stays."""
    is_inside = (place >= 0) & (place < like.numel())
    stored = y.new_full((like.numel(),), torch.nan)
    stored[place[is_inside]] = y[is_inside]
    return stored.view(like.shape)


def _load(x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
    """NaN where that is no memory of x, and 0 where the mask is false."""
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    at = (x.storage_offset() + offset).long()
    inside = (at >= 0) & (at < len(memory))
    loaded = torch.where(inside, memory[at.clamp(0, len(memory) - 1)], torch.nan)
    return loaded if mask is None else torch.where(mask, loaded, 0)
