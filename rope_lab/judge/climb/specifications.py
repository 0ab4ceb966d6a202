"""The climb of notebooks 04 to 09: what every rung computes, and its gradient."""

import torch

from ..definitions import rope, rope_gradient, rotate_half, rotated
from ..spec import STRIDED, Case, spec

_ONE_KERNEL = {"kernel": True, "launches": 1}
_OF_ROWS = _ONE_KERNEL | {
    "leave_out": (*STRIDED, "part of the head rotated"),
    # five tiles of 8 rows: in other cases their number is a power of two, and & does for %
    "extra": (Case("39 rows of a position", {"s": 2, "b": 3, "h": 13, "d": 24}),),
}


def _sign_by_the_head(t, freqs):
    d, d2 = t.shape[-1], freqs.shape[-1]
    column = torch.arange(d2)
    partner = t[..., (column + d2 // 2) % d2]
    quarter = torch.where(column < d // 2, -partner, partner)
    return rotated(t, freqs[: t.shape[0]], lambda x: quarter)


def _with_partners(column_of_partner):
    """A mistake: each column of what rotates has another partner; its sign is right."""

    def mistaken(t, freqs):
        d, d2 = t.shape[-1], freqs.shape[-1]
        column = torch.arange(d2)
        partner = t[..., column_of_partner(column, d, d2)]
        quarter = torch.where(column < d2 // 2, -partner, partner)
        return rotated(t, freqs[: t.shape[0]], lambda x: quarter)

    return mistaken


def _modulo_the_head(column, d, d2):
    return (column + d2 // 2) % d


def _neighbor(column, d, d2):
    return column ^ 1


def _from_the_end(column, d, d2):
    return d2 - 1 - column


def _halves_of_the_head(t, freqs):
    quarter = rotate_half.function(t)[..., : freqs.shape[-1]]
    return rotated(t, freqs[: t.shape[0]], lambda x: quarter)


def _columns_of_what_rotates(t, freqs):
    """Its number modulo D2 for an element's column, in the row that it is in."""
    d2 = freqs.shape[-1]
    column = (torch.arange(t.numel()) % d2).view(t.shape)
    return rope.function(t[..., :d2], freqs).gather(-1, column)


# `rope` by one kernel
rope_of_any_strides = spec(
    rope.function,
    **_ONE_KERNEL,
    mistakes={
        "the sign by half of D, where half of D2 decides": _sign_by_the_head,
        "halves and partners by half of D, where half of D2 decides": _halves_of_the_head,
        "the partner by % D: in the second half it is in the tail; D2 decides": (
            _with_partners(_modulo_the_head)
        ),
        "the column by % D2, where a row has D elements": _columns_of_what_rotates,
        "the partner is the neighbor, where half of D2 is between partners": (
            _with_partners(_neighbor)
        ),
        "the first with the last, where half of D2 is between partners": (
            _with_partners(_from_the_end)
        ),
    },
)

# of contiguous tensors whose heads are rotated as a whole
rope_of_whole_rows = spec(rope.function, **_OF_ROWS)
rope_of_whole_rows_in_place = spec(rope.function, **_OF_ROWS, overwrites=("t",))


def _backward(change):
    """A mistake: the kernel's two lines with `change(cos1, sin1, cos2, sin2)` for these four."""

    def mistaken(grad, freqs):
        angles = freqs[: grad.shape[0]]
        (x1, x2), (angle1, angle2) = grad.chunk(2, -1), angles.chunk(2, -1)
        cos1, sin1, cos2, sin2 = change(angle1.cos(), angle1.sin(), angle2.cos(), angle2.sin())
        return torch.cat((x1 * cos1 - x2 * sin1, x2 * cos2 + x1 * sin2), -1)

    return mistaken


def _second_sine_of_the_forward(cos1, sin1, cos2, sin2):
    return cos1, -sin2, cos2, sin2


def _first_sine_of_the_forward(cos1, sin1, cos2, sin2):
    return cos1, sin1, cos2, -sin1


def _cosines_for_sines(cos1, sin1, cos2, sin2):
    return cos2, sin1, cos1, sin2


_OF_THE_GRADIENT = {
    "sin2 is still the forward's: is it made of sin1, which is -sin2 by then?": (
        _backward(_second_sine_of_the_forward)
    ),
    "sin1 is still the forward's: is it made of sin2, which is -sin1 by then?": (
        _backward(_first_sine_of_the_forward)
    ),
    "the cosines are exchanged, where the sines have to be, with a sign": (
        _backward(_cosines_for_sines)
    ),
}

# its transpose; the halves of a table may differ
_GRADIENT = _OF_ROWS | {"mistakes": _OF_THE_GRADIENT}
rope_of_whole_rows_gradient = spec(rope_gradient.function, **_GRADIENT)
rope_of_gradient_in_place = spec(rope_gradient.function, **_GRADIENT, overwrites=("grad",))
