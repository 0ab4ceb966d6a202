"""The wrong two elements as a pair: the other convention, or exchanged members."""

from dataclasses import replace

import torch
from torch import Tensor

from .evidence import Evidence
from .wrong_order import ordered


def pairing(e: Evidence) -> str | None:
    """The other of the two conventions."""
    d2 = e.rotary_dim
    if d2 % 2:
        return None
    order = torch.arange(d2).view(2, -1).t().flatten()  # halves -> neighbors
    for there, back, wanted in (
        (order, order.argsort(), "halves (i, i + d2/2), where neighbors (2i, 2i + 1) are asked"),
        (order.argsort(), order, "neighbors (2i, 2i + 1), where halves (i, i + d2/2) are asked"),
    ):
        inputs = [_reorder(x, there, d2, a.holds) for x, a in e.arguments]
        guess = _reorder(e.spec(*inputs), back, d2, "floats")
        if e.got_is(guess):
            if e.spec.angles == "pairs" and back is order:  # asked for neighbors, as it pairs
                return "the order: the permutation and its inverse have changed places"
            return f"the wrong pairing: it pairs {wanted} for"
        is_matrix = guess.shape[-2:] == (d2, d2)
        if is_matrix and e.got_is(_reorder(guess.mT, back, d2, "floats").mT):
            return f"the wrong pairing: it pairs {wanted} for"
        if not e.halves_have_angles:
            continue
        # one angle for both of a wrong pair
        asks_neighbors = back is not order
        for pick in (lambda x: x[..., : d2 // 2], lambda x: x[..., ::2]):
            one_angle = [
                _for_both(pick(x), asks_neighbors) if a.holds == "angles" else y
                for x, y, a in zip(e.inputs, inputs, e.spec.arguments, strict=True)
            ]
            if e.got_is(_reorder(e.spec(*one_angle), back, d2, "floats")):
                return f"the wrong pairing: it pairs {wanted} for"
        inputs = [
            _reorder(x, there, d2, "floats") if a.holds == "angles" else x for x, a in e.arguments
        ]
        if e.got_is(e.spec(*inputs)):
            return "the wrong angle: the table's angles are in another order than the elements"
    return None


def _reorder(x: Tensor, order: Tensor, d2: int, holds: str) -> Tensor:
    if holds in ("positions", "number") or x.shape[-1] < d2:
        return x
    return ordered(x, order)


def _for_both(angle: Tensor, neighbors: bool) -> Tensor:
    """A table from the angle of each pair."""
    return angle.repeat_interleave(2, -1) if neighbors else torch.cat((angle, angle), -1)


def members(e: Evidence) -> str | None:
    """The two of a pair: exchanged when they were loaded, or one of them its own partner."""
    d2 = e.rotary_dim
    if d2 % 2 or not e.has_angles:
        return None
    place = torch.arange(d2)
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds != "floats" or x.shape != e.expected.shape:
            continue
        for order in (place.roll(d2 // 2), place.unflatten(0, (-1, 2)).flip(-1).flatten()):
            exchanged = e.expected_with_input(number, ordered(x, order))
            if e.got_is(exchanged):
                return "the wrong members: the two of a pair are exchanged when they are loaded"
            cosines, sines = e.cosine_and_sine_parts()
            inputs = [*e.inputs[:number], ordered(x, order), *e.inputs[number + 1 :]]
            _, of_itself = replace(e, inputs=inputs).cosine_and_sine_parts()
            for where, here in e.places.items():
                for sign in (1, -1):
                    if e.got_is(cosines + torch.where(here, sign * of_itself, sines)):
                        return f"the wrong partner: in {where} each element is its own"
    return None
