"""The angles of another position, or another row: how rows and positions are counted."""

import torch
from torch import Tensor

from .evidence import Evidence


def another_position(e: Evidence) -> str | None:
    """Angles of rows counted in another way than by position."""
    if e.got_is(e.expected_with_angles(lambda x: x[:1].expand_as(x))):
        return "the wrong position: the angle is that of 0, the first position"
    floats = next((x for x, a in e.arguments if a.holds == "floats" and x.dim() == 4), None)
    table = next((x for x, a in e.arguments if a.holds == "angles"), None)
    if floats is None or table is None or e.expected.dim() != 4:
        return None
    if any(argument.holds == "positions" for argument in e.spec.arguments):
        return None  # positions are given: `another_id`
    position = torch.arange(len(e.expected))[:, None, None]
    for what, others in _other_positions(e.expected.shape, len(table)).items():
        inside = others < len(table)
        if (inside & (others != position)).any() and all(
            _turned_by(e, p, others == p) for p in range(len(table))
        ):
            return f"the wrong position: the angle is that of {what}"
    return None


def _other_positions(shape: torch.Size, length: int) -> dict[str, Tensor]:
    """For each row of (s, b, h, d), the row of a table of this length that it may read."""
    s, b, h, _ = shape
    row = torch.arange(s * b * h).view(s, b, h)
    position = row // (b * h)
    return {
        "the row's number": row,
        "the row's number divided by h alone": row // h,
        "the row's number divided by b alone": row // b,
        "the head's number": row % h,
        "0, the first position": row * 0,
        "the sequence's number": row // h % b,
        "the position plus 1": position + 1,
        "the position counted from the end of the table": position + length - s,
    }


def _turned_by(e: Evidence, p: int, here: Tensor) -> bool:
    """Are these rows turned by the angles of position p?"""
    if not here.any():
        return True
    turned = e.expected_with_angles(lambda x: x[p : p + 1].expand_as(x))
    return e.close(e.got[here], turned[here])


def another_id(e: Evidence) -> str | None:
    """Positions that are given, read from another place."""
    for number, argument in enumerate(e.spec.arguments):
        if argument.holds == "positions" and argument.letters[-2:] == ("b", "s"):
            found = _one_place_for_ids(e, number) or _token_at_its_position(e, e.inputs[number])
            if found:
                return found
    return None


def _one_place_for_ids(e: Evidence, number: int) -> str | None:
    ids = e.inputs[number]
    for what, others in _other_ids(ids).items():
        if not torch.equal(others, ids) and e.got_is(e.expected_with_input(number, others)):
            return f"the wrong position: {what}"
    if ids.dim() > 2:
        by_section = torch.stack([e.expected_with_input(number, ids[[k, k, k]]) for k in range(3)])
        difference = (by_section.double() - e.got.double()).abs().amin(0)
        if e.close(difference, torch.zeros_like(difference)):
            return "the wrong position: the sections begin or end elsewhere"
    return None


def _other_ids(ids: Tensor) -> dict[str, Tensor]:
    """Ids (b, s), or (3, b, s) of three sections, as a wrong kernel may read them."""
    *sections, b, s = ids.shape
    guesses = {
        "that of the place in the sequence, not of the id": torch.arange(s).expand_as(ids),
        "0, the first one, for all": ids * 0,
        "that of the sequence's first token, for all its tokens": ids[..., :1].expand_as(ids),
        "the ids are read as (s, b), where (b, s) is asked": ids.reshape(*sections, s, b).mT,
        "that of the first sequence's token, for all sequences": ids[..., :1, :].expand_as(ids),
    }
    if sections:
        for k in range(3):
            guesses[f"every section takes those of section {k}"] = ids[[k, k, k]]
        row = torch.arange(3)[:, None] + torch.arange(b)
        guesses["a section begins one row of ids after the one before, not a batch of rows"] = (
            ids.flatten(0, 1)[row.clamp(max=3 * b - 1)]
        )
        for order in ((2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)):
            words = "the sections take those of " + ", ".join(map(str, order))
            guesses[words] = ids[list(order)]
    return guesses


def _token_at_its_position(e: Evidence, ids: Tensor) -> str | None:
    if ids.dim() > 2:
        return None
    b, s = ids.shape
    for number, argument in enumerate(e.spec.arguments):
        x = e.inputs[number]
        if argument.holds == "floats" and x.shape[:2] == (s, b):
            moved = x[ids.t().clamp(max=s - 1), torch.arange(b)]
            if e.got_is(e.expected_with_input(number, moved)):
                return f"the wrong token: {argument.name} is read where the position says, too"
    return None


def another_row(e: Evidence) -> str | None:
    """The number of a row taken apart in another order."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            other = x.transpose(1, 2).reshape(x.shape)
            if not torch.equal(other, x) and e.got_is(e.expected_with_input(number, other)):
                return "the wrong row: sequence and head are counted in the other order"
    return None


def several_sequences(e: Evidence) -> str | None:
    """What only the case says."""
    if e.case.name == "several sequences" and e.earlier:
        return "the batch: right for one sequence, wrong for several"
    return None


def longer_table(e: Evidence) -> str | None:
    """What only the case says."""
    if e.case.name == "a table longer than the sequence" and e.earlier:
        return "the table's length: right for a table that ends with the sequence"
    return None
