"""Something was never put there: no store, a tail left out, a mask, zeros."""

import torch

from ..spec import TAIL_AND_STRIDE
from .evidence import Evidence


def unwritten(e: Evidence) -> str | None:
    """What is wrong has no owner: no program stored it."""
    places = e.wrong.nonzero()
    if not all(
        e.nobody_wrote(tuple(place)) for place in places[:: max(1, len(places) // 50)].tolist()
    ):
        return None
    if e.only_in_tail:
        wrong = e.wrong[..., e.rotary_dim :]
        if not wrong.all():
            number = f"{wrong.sum()} of its {wrong.numel()} elements"
            return f"part of the tail is never written: {number}"
        return "the tail is forgotten: elements d2 and up are never written"
    stored_twice = "".join(f"; {words}" for words in e.twice[:1] if "stores" in words)
    part = _unwritten_part(e)
    if part.startswith("the last") and not stored_twice:
        part += "; is the grid large enough?"
    return f"unwritten: no program stores {part}{stored_twice}"


def _unwritten_part(e: Evidence) -> str:
    """Which elements they are, in as few words as possible."""
    wrong = e.wrong.flatten()
    first, count = int(wrong.nonzero()[0]), int(wrong.sum())
    if count == wrong.numel():
        return "any element"
    if wrong[first:].all():
        return f"the last elements, from number {first} on"
    columns = e.wrong.flatten(0, -2).any(0) if e.wrong.dim() > 1 else wrong
    start = int(columns.nonzero()[0])
    rows = len(wrong) // len(columns)
    if start and columns[start:].all() and count == rows * int(columns.sum()):
        return f"the columns from {start} on, in any row"
    return f"these elements, {count} of {wrong.numel()}"


def masked_off(e: Evidence) -> str | None:
    """What a load without `other` gives where its mask is false, in the result."""
    collision = any("stores" in words for words in e.twice)
    is_nan = e.got.is_floating_point() and e.got[e.wrong].isnan().all()
    if e.undefined and is_nan and not collision:
        return (
            "NaN: an element that is masked off is used; a load without `other` leaves it undefined"
        )
    return None


def tail(e: Evidence) -> str | None:
    """Stored, and not what came in."""
    if not e.only_in_tail or e.case.name == TAIL_AND_STRIDE:
        return None
    got = e.got[..., e.rotary_dim :]
    if not got[e.wrong[..., e.rotary_dim :]].any():
        return "the tail is wrong: it is zero, and has to come out as it came in"
    first_row = e.expected.flatten(0, -2)[0, e.rotary_dim :]
    if e.close(got, first_row.expand_as(got)):
        return "the tail is wrong: every row has the first row's"
    return "the tail is wrong: elements d2 and up have to come out as they came in"


def zero(e: Evidence) -> str | None:
    """Something was never put there."""
    if e.got[e.wrong].any():
        return None
    for where, place in e.places.items():
        if torch.equal(e.wrong, (e.expected != 0) & place):
            return f"zero: what is wrong is zero, in {where}"
    return "zero: what is wrong is zero; is a part never computed?"


def rest_of_block(e: Evidence) -> str | None:
    """All that is wrong is at the end of memory, and an earlier case was right."""
    wrong = e.wrong.flatten()
    first = int(wrong.nonzero()[0])
    is_last = first > len(wrong) // 3 and float(wrong[first:].float().mean()) > 0.9
    if is_last and e.earlier:
        return "the rest: the last elements, which fill no whole block, are wrong"
    return None
