"""What was seen while the kernel ran: who stored what, and what was never stored or used."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..spec import TAIL_AND_STRIDE
from .evidence import Evidence, Guess, fitted, part, place, seen, whole

_MOST_COLUMNS = 8  # that are counted up


def stored_by_programs(e: Evidence) -> Iterator[Guess]:
    """A race, an element that is stored twice, or read after it was stored."""
    if e.races:
        yield seen(f"a race between programs: {e.races[0]}")
        return
    if e.stored_twice and came_out(e):  # changed, and then overwritten
        yield seen(f"write collision: {e.stored_twice[0]}")
    elif e.stored_twice:
        yield fitted(f"write collision: {e.stored_twice[0]}")
    elif e.reread:
        yield fitted(f"read after write: {e.reread[0]}")


def unchanged(e: Evidence) -> Iterator[Guess]:
    """Nothing was done: an input as it came. It may also be in another order, or a factor off."""
    if name := came_out(e):
        yield whole(f"unchanged: the result is {name} as it came")


def came_out(e: Evidence) -> str:
    """The name of the input that is the result."""
    floats = ((x, argument.name) for x, argument in e.arguments if argument.holds == "floats")
    return next((name for x, name in floats if e.got_is(x) and not e.close(x, e.expected)), "")


def unwritten(e: Evidence) -> Iterator[Guess]:
    """What is wrong has no owner: no program stored it."""
    if e.races or not e.unwritten[e.wrong].all():
        return
    if e.only_in_tail:
        yield seen("the tail is forgotten: elements d2 and up are never written")
    elif e.overwritten:
        yield seen(f"an input is overwritten: {e.overwritten[0]}")
    elif not e.trace or not e.trace.launches:
        words = "new memory came back, and what is wrong was never put there"
        yield seen(f"unwritten: {words}")
    elif not e.trace.programs:
        yield seen("no program ran: the grid is empty")
    elif e.unwritten.all() and (name := came_out(e)):
        yield seen(f"unwritten: the result is {name} as it came, and no program stores in it")
    else:
        more = "".join(f"; {words}" for words in e.stored_twice[:1])
        which = _which_are_unwritten(e)
        idle, programs = len(e.trace.programs) - len(e.trace.stores), len(e.trace.programs)
        if not more and idle:
            more = f"; {idle} of {programs} programs store nothing: is their mask false?"
        elif not more and which.startswith("the last"):
            more = "; is the grid large enough?"
        yield seen(f"unwritten: no program stores {which}{more}")


def _which_are_unwritten(e: Evidence) -> str:
    """In as few words as possible."""
    wrong = e.wrong.flatten()
    first, count = int(wrong.nonzero()[0]), int(wrong.sum())
    if count == wrong.numel() or e.unwritten.all():
        return "any element"
    if wrong[first:].all():
        return f"the last elements, from number {first} on"
    if e.wrong.dim() == 4 and (heads := _which_heads(e.wrong)):
        return heads
    if e.wrong.dim() > 1 and (columns := _which_columns(e)):
        return columns
    return f"these elements, {count} of {wrong.numel()}"


def _which_heads(wrong: Tensor) -> str:
    """'heads 1, 2, 3, ...', if these are wrong as a whole, and no element of another; or ''."""
    whole = wrong.movedim(2, 0).flatten(1)
    if not torch.equal(whole.any(1), whole.all(1)):
        return ""
    numbers = whole.all(1).nonzero().flatten().tolist()
    return f"head{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))} of {len(whole)}"


def _which_columns(e: Evidence) -> str:
    """'the second half of each row', if that is unwritten as a whole, and no other element."""
    columns = e.unwritten.flatten(0, -2)
    if not torch.equal(columns.any(0), columns.all(0)):
        return ""
    for where, here in e.places.items():
        if torch.equal(columns[0], here):
            return f"{where} of each row"
    numbers = columns[0].nonzero().flatten().tolist()
    if len(numbers) > _MOST_COLUMNS:
        return ""
    return f"column{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))} of each row"


def masked_off(e: Evidence) -> Iterator[Guess]:
    """What a load without `other` gives where its mask is false, in the result."""
    is_nan = e.got.is_floating_point() and e.got[e.wrong].isnan().all()
    if e.trace and e.trace.undefined and is_nan and not e.stored_twice:
        yield whole(
            "NaN: an element that is masked off is used; a load without `other` leaves it undefined"
        )


def tail(e: Evidence) -> Iterator[Guess]:
    """Stored, and not what came in."""
    if not e.only_in_tail or e.case.name == TAIL_AND_STRIDE:
        return
    got = e.got[..., e.rotary_dim :]
    if not got[e.wrong[..., e.rotary_dim :]].any():
        yield whole("the tail is wrong: it is zero, and has to come out as it came in")
    else:
        yield part("the tail is wrong: elements d2 and up have to come out as they came in")


def zero(e: Evidence) -> Iterator[Guess]:
    """Something was never put there."""
    if e.only_in_tail or e.got[e.wrong].any():
        return
    for where, here in e.places.items():
        if torch.equal(e.wrong, (e.expected != 0) & here):
            yield place(f"zero: what is wrong is zero, in {where}")
            return
    yield place("zero: what is wrong is zero; is a part never computed?")


RULES = stored_by_programs, unchanged, unwritten, masked_off, tail, zero
