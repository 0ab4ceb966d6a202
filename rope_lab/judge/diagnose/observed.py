"""Mistakes without a guess: observed in the run, known to the exercise, or looked up."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..spec import CHANGED, MANY, OTHER_BLOCK, TAIL_AND_STRIDE
from .evidence import Evidence, Guess, Pairs, fitted, found, own, pairs_of, part, place, seen, whole

_MOST_COLUMNS = 8  # columns that a verdict lists
_ELEMENTS = 200  # wrong elements that are looked at
_ANGLES = 200  # of a table; of a larger one no element's angle is looked for
_OFF = 1e-5  # the largest difference from a candidate result; relative for results above 1

# While the kernel ran: who stored what, and what was never stored or used.


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
    """Nothing was done: the result is an input. Another order or a factor may explain it, too."""
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
        more = f"; {where}" if e.unwritten.all() and (where := _stores_elsewhere(e)) else ""
        yield seen(f"an input is overwritten: {e.overwritten[0]}{more}")
    elif not e.trace or not e.trace.launches:
        words = "new memory came back, and what is wrong was never put there"
        yield seen(f"unwritten: {words}")
    elif not e.trace.programs:
        yield seen("no program ran: the grid is empty")
    elif e.unwritten.all() and (name := came_out(e)):
        yield seen(f"unwritten: the result is {name} as it came, and no program stores in it")
    elif e.unwritten.all() and _stores_in_an_input(e):
        yield seen(f"unwritten: {_stores_elsewhere(e)}")
    else:
        more = f"; {e.stored_twice[0]}" if e.stored_twice else ""
        which = _which_are_unwritten(e)
        idle, programs = len(e.trace.programs) - len(e.trace.stores), len(e.trace.programs)
        if not more and idle:
            why = "is their mask false?" if idle < programs else "no tl.store, or a false mask?"
            more = f"; {idle} of {programs} programs store nothing: {why}"
        elif not more and int((~e.unwritten).sum()) == programs:
            more = "; each program stores one element: no block, tl.arange(0, BLOCK), or a mask"
            more += " that is false for its other lanes?"
        elif not more and e.case.name == OTHER_BLOCK and which.startswith("the last"):
            more = f"; is a number written where `{next(iter(e.case.options))}` belongs?"
        elif not more and which.startswith("the last"):
            more = "; is the grid large enough? Is the mask true for them?"
        yield seen(f"unwritten: no program stores {which}{more}")


def _stores_elsewhere(e: Evidence) -> str:
    """Where a kernel stores instead of the result, as its argument's name; '' if nowhere."""
    memories = e.trace.memories if e.trace else []
    stored = [memory.name for memory in memories if memory.moved["stored"]]
    if not stored:
        return ""
    if e.memory is None:
        return "no kernel gets the result: the launch doesn't pass it"
    return f"the kernel stores in {stored[0]}, and the result is its {e.memory.name}"


def _stores_in_an_input(e: Evidence) -> bool:
    """Whether it stores there exactly the input's values, so that the input looks unchanged."""
    stored = [memory.tensor for memory in e.trace.memories if memory.moved["stored"]]
    return any(torch.equal(x, y) for x in stored for y in e.inputs)


def kept(e: Evidence) -> Iterator[Guess]:
    """Sines or a table of the previous call, whose angles were twice as large."""
    if e.case.name == CHANGED:
        words = "the angles of an earlier call: the table is at the same address, and has others"
        yield seen(words, e.expected_with_angles(lambda x: 2 * x))


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
    if wrong[:count].all():
        return f"the first {count} elements" if count > 1 else "the first element"
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


def loaded_from_the_result(e: Evidence) -> Iterator[Guess]:
    """A load from the new result, where an input belongs."""
    if e.memory is None or e.overwritten or e.reread or e.spec.overwrites:
        return
    if e.memory.moved["loaded"] and e.got[e.wrong].isnan().all():
        words = "which is the result: new memory, and nothing is stored there yet"
        yield seen(f"NaN: the kernel loads from {e.memory.name}, {words}")


def masked_off(e: Evidence) -> Iterator[Guess]:
    """NaN in the result, from a load without `other` whose mask is false."""
    is_nan = e.got.is_floating_point() and e.got[e.wrong].isnan().all()
    if e.trace and e.trace.undefined and is_nan and not e.stored_twice:
        yield whole(
            "NaN: an element that is masked off is used; a load without `other` leaves it undefined"
        )


def tail(e: Evidence) -> Iterator[Guess]:
    """The tail is stored, but isn't the input's."""
    if not e.only_in_tail or e.case.name == TAIL_AND_STRIDE:
        return
    got = e.got[..., e.rotary_dim :]
    if not got[e.wrong[..., e.rotary_dim :]].any():
        yield whole("the tail is wrong: it is zero, and has to come out as it came in")
    else:
        yield part("the tail is wrong: elements d2 and up have to come out as they came in")


def zero(e: Evidence) -> Iterator[Guess]:
    """Wrong elements that are zero."""
    if e.only_in_tail or e.got[e.wrong].any():
        return
    for where, here in e.places.items():
        if torch.equal(e.wrong, (e.expected != 0) & here):
            yield place(f"zero: what is wrong is zero, in {where}")
            return
    yield place("zero: what is wrong is zero; is a part never computed?")


# The exercise: `mistakes` of its specification, and how its results may round.


def known_mistake(e: Evidence) -> Iterator[Guess]:
    """A mistake in the exercise's specification."""
    for words, made in e.mistakes.items():
        yield own(words, made)


def rounding(e: Evidence) -> Iterator[Guess]:
    """Right except for the last digits; in the exercise's words if it knows this rounding."""
    if e.only_in_tail:
        return  # nothing is computed there
    got, expected = e.got.double(), e.expected.double()
    largest = float(expected.abs().max())
    eps = max(torch.finfo(dtype).eps for dtype in (torch.float16, e.expected.dtype))
    if not ((got - expected).abs() <= 4 * eps * largest).all():
        return
    told = "rounding: compute in fp32, and round once, at the end"
    for words, made in (e.mistakes | e.roundings).items():
        if _fits(e, made) and not _fits(e, e.expected):
            told = words
    yield seen(told)


def _fits(e: Evidence, made: Tensor) -> bool:
    """Is it the result: in fp32 nearly all digits, otherwise nearly all elements bit by bit?"""
    if made.shape != e.got.shape:
        return False
    if e.got.dtype == torch.float32:
        return torch.allclose(e.got, made, rtol=1e-5, atol=1e-7, equal_nan=True)
    return bool((made == e.got).double().mean() > 0.9)


# From which other elements or angles is it computed? Reported if nothing names a cause.
#
# Random numbers can be found among the inputs: if every wrong row, or every wrong element that is
# looked at, comes from some place there, that is its source. In half precision, too many match.


def overwritten(e: Evidence) -> Iterator[Guess]:
    """An input, and the result is wrong, too."""
    if e.overwritten:
        yield found(f"an input is overwritten: {e.overwritten[0]}")


def other_places(e: Evidence) -> Iterator[Guess]:
    """The sources of whole rows or, if none are found, of single elements."""
    pairs = e.pairs if e.expected.dtype == torch.float32 else None
    if pairs is None or e.only_in_tail or e.case.name == MANY or not e.got.isfinite().all():
        return
    for search in (_rows, _elements, _angles):
        if words := search(e, pairs):
            yield found(words)
            return


def _rows(e: Evidence, pairs: Pairs) -> str:
    """The first wrong row as another row of an input, or at another position of the table."""
    if e.expected.dim() < 2:
        return ""
    got, expected = (x.double().flatten(0, -2) for x in (e.got, e.expected))
    rows, names = [], []
    for x, a in e.arguments:
        if a.holds == "floats" and x.dim() == e.expected.dim() and x.shape[-1] == got.shape[-1]:
            rows.append(x.double().flatten(0, -2))
            names += [(a.name, _index(row, x.shape[:-1])) for row in range(len(rows[-1]))]
    rows = torch.cat(rows)
    made = []  # for each position of the table
    for angles in _each_position(e):
        at_it = pairs_of(e.spec, e.inputs, e.expected.shape, angles)
        if at_it is None:
            return ""
        own, other = (x.flatten(0, -2)[:1] for x in (at_it.own, at_it.other))
        made.append(own * rows + other * rows[:, pairs.columns])
    made = torch.stack(made)  # (positions, rows, d)

    def where(row: Tensor) -> tuple[int, int] | None:
        off = ((made - row).abs() / row.abs().clamp(min=1)).amax(-1)
        best = int(off.argmin())
        return divmod(best, len(rows)) if off.flatten()[best] < _OFF else None

    wrong = e.wrong.flatten(0, -2).any(-1).nonzero().flatten().tolist()
    places = [where(got[row]) for row in wrong]
    right = where(expected[wrong[0]])
    if None in places or right is None:
        return ""
    position, source = places[0]
    at = _index(wrong[0], e.expected.shape[:-1])
    turns = f"the angles of position {position}, not of {right[0]}"
    if source == right[1]:
        return f"the wrong position: row ({at}) is rotated by {turns}"
    name, index = names[source]
    words = f"the wrong row: ({at}) of the result is made of {name}[{index}]"
    return f"{words}, and rotated by {turns}" if position != right[0] else words


def _each_position(e: Evidence) -> list[Callable[[Tensor], Tensor]]:
    """Changes that give every row of the table the angles of one; without a table, none."""
    tables = [x for x, a in e.arguments if a.holds == "angles"]
    if not tables:
        return [lambda angles: angles]
    return [lambda angles, p=p: angles[p : p + 1].expand_as(angles) for p in range(len(tables[0]))]


def _elements(e: Evidence, pairs: Pairs) -> str:
    """The first wrong element as one with another partner, or another element instead of it."""
    x, a = e.arguments[pairs.number]
    flat = x.double().flatten()
    pool = torch.cat((flat, -flat))
    wrong = _first_wrong(e)
    elements = pairs.elements.flatten()[wrong]
    partners = pairs.partners.flatten()[wrong]
    own = pairs.own.flatten()[wrong]
    other = pairs.other.flatten()[wrong]
    got = e.got.double().flatten()[wrong]
    own_column = torch.arange(x.shape[-1])
    for what, factor, rest, columns in (
        ("partner", other, own * elements, pairs.columns),
        ("element", own, other * partners, own_column),
    ):
        if not factor.all():
            continue
        off = (factor[:, None] * pool + rest[:, None] - got[:, None]).abs()
        if (off.amin(1) < _OFF * got.abs().clamp(min=1)).all():
            *row, column = _unravel(wrong[0], x.shape)
            right = (*row, int(columns[column]))
            is_minus, place = divmod(int(off[0].argmin()), x.numel())
            there = f"{'-' * is_minus}{a.name}[{_index(place, x.shape)}]"
            words = f"({_index(wrong[0], x.shape)}) of the result takes {there}"
            what = what if pairs.has_angles else "element"
            return f"the wrong {what}: {words}, not {a.name}[{', '.join(map(str, right))}]"
    return ""


def _angles(e: Evidence, pairs: Pairs) -> str:
    """The first wrong element as one that is rotated by another angle of the table."""
    table = next(((x, a.name) for x, a in e.arguments if a.holds == "angles"), None)
    if table is None:
        return ""
    angles, name = table
    if angles.numel() > _ANGLES:
        return ""
    wrong = _first_wrong(e)
    made = []
    for angle in angles.double().flatten():
        by_it = pairs_of(e.spec, e.inputs, e.expected.shape, lambda x, by=angle: by.expand_as(x))
        if by_it is None:
            return ""
        made.append(by_it.of(pairs.elements, pairs.partners).flatten()[wrong])
    made = torch.stack(made, 1)  # (wrong elements, angles)

    def off(result: Tensor) -> Tensor:
        x = result.double().flatten()[wrong]
        return (made - x[:, None]).abs() / x.abs().clamp(min=1)[:, None]

    found_at, right = off(e.got), off(e.expected)
    if not (found_at.amin(1) < _OFF).all() or not right[0].amin() < _OFF:
        return ""
    there = _index(int(found_at[0].argmin()), angles.shape)
    asked = _index(int(right[0].argmin()), angles.shape)
    words = f"({_index(wrong[0], e.expected.shape)}) of the result is rotated by {name}[{there}]"
    return f"the wrong angle: {words}, not by {name}[{asked}]"


def _first_wrong(e: Evidence) -> list[int]:
    return e.wrong.flatten().nonzero().flatten()[:_ELEMENTS].tolist()


def _unravel(number: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(number), tuple(shape)))


def _index(number: int, shape: torch.Size) -> str:
    """'0, 0, 1'."""
    return ", ".join(map(str, _unravel(number, shape)))


RULES = (
    stored_by_programs,
    unchanged,
    unwritten,
    loaded_from_the_result,
    kept,
    masked_off,
    tail,
    zero,
    known_mistake,
    rounding,
    overwritten,
    other_places,
)
