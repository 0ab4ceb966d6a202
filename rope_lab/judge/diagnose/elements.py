"""From which other elements or angles is it computed? Told where nothing names a cause.

Random numbers are found again among the inputs: if every wrong row, or every wrong element that is
looked at, comes from some place there, these are its places. In half precision too many would fit.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .evidence import Evidence, Guess, found
from .pairs import Pairs, pairs_of

_ELEMENTS = 200  # so many wrong ones are looked at
_ANGLES = 200  # of a table; of a larger one no element's angle is looked for
_OFF = 1e-5  # how far a result may be from the one that it is taken for, from 1 on relative


def overwritten(e: Evidence) -> Iterator[Guess]:
    """An input, and the result is wrong, too."""
    if e.overwritten:
        yield found(f"an input is overwritten: {e.overwritten[0]}")


def other_places(e: Evidence) -> Iterator[Guess]:
    """Of whole rows, else of single elements."""
    pairs = e.pairs if e.expected.dtype == torch.float32 else None
    if pairs is None or e.only_in_tail or not e.got.isfinite().all():
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
    (position, source), at = places[0], _index(wrong[0], e.expected.shape[:-1])
    turns = f"the angles of position {position}, not of {right[0]}"
    if source == right[1]:
        return f"the wrong position: row ({at}) is turned by {turns}"
    name, index = names[source]
    words = f"the wrong row: ({at}) of the result is made of {name}[{index}]"
    return f"{words}, and turned by {turns}" if position != right[0] else words


def _each_position(e: Evidence) -> list[Callable[[Tensor], Tensor]]:
    """Changes that give every row of the table the angles of one; without a table, none."""
    tables = [x for x, a in e.arguments if a.holds == "angles"]
    if not tables:
        return [lambda angles: angles]
    return [lambda angles, p=p: angles[p : p + 1].expand_as(angles) for p in range(len(tables[0]))]


def _elements(e: Evidence, pairs: Pairs) -> str:
    """The first wrong element as one with another partner, or with another one in its place."""
    x, a = e.arguments[pairs.number]
    pool, wrong = torch.cat((x.double().flatten(), -x.double().flatten())), _first_wrong(e)
    at_wrong = [t.flatten()[wrong] for t in (pairs.elements, pairs.partners, pairs.own)]
    elements, partners, own = at_wrong
    other, got = pairs.other.flatten()[wrong], e.got.double().flatten()[wrong]
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
    """The first wrong element as one that is turned by another angle of the table."""
    table = next(((x, a.name) for x, a in e.arguments if a.holds == "angles"), None)
    if table is None or table[0].numel() > _ANGLES:
        return ""
    (angles, name), wrong = table, _first_wrong(e)
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
    there, asked = (_index(int(x[0].argmin()), angles.shape) for x in (found_at, right))
    words = f"({_index(wrong[0], e.expected.shape)}) of the result is turned by {name}[{there}]"
    return f"the wrong angle: {words}, not by {name}[{asked}]"


def _first_wrong(e: Evidence) -> list[int]:
    return e.wrong.flatten().nonzero().flatten()[:_ELEMENTS].tolist()


def _unravel(number: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(number), tuple(shape)))


def _index(number: int, shape: torch.Size) -> str:
    """'0, 0, 1'."""
    return ", ".join(map(str, _unravel(number, shape)))


RULES = overwritten, other_places
