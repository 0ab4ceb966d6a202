"""Another row, position or stride: how what is read, and what is stored, is counted."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..spec import STRIDED, TAIL_AND_STRIDE
from .evidence import Evidence, Guess, part, place, whole


def position(e: Evidence) -> Iterator[Guess]:
    """Angles of rows counted in another way than by position."""
    first = e.expected_with_angles(lambda x: x[:1].expand_as(x))
    yield whole("the wrong position: the angle is that of 0, the first position", first)
    floats = next((x for x, a in e.arguments if a.holds == "floats" and x.dim() == 4), None)
    table = next((x for x, a in e.arguments if a.holds == "angles"), None)
    if floats is None or table is None or e.expected.dim() != 4:
        return
    rows = range(len(table))
    turned = [e.expected_with_angles(lambda x, p=p: x[p : p + 1].expand_as(x)) for p in rows]
    s, b, h, _ = e.expected.shape
    row = torch.arange(s * b * h).view(s, b, h)
    for words, others in {
        "the row's number": row,
        "the row's number divided by h alone": row // h,
        "the row's number divided by b alone": row // b,
        "the head's number": row % h,
    }.items():
        # beyond the table may be anything
        result = e.got.to(turned[0].dtype)
        for p, of_one in enumerate(turned):
            result = torch.where((others == p)[..., None], of_one, result)
        yield whole(f"the wrong position: the angle is that of {words}", result)


def row(e: Evidence) -> Iterator[Guess]:
    """The number of a row taken apart in another order."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            other = x.transpose(1, 2).reshape(x.shape)
            words = "the wrong row: sequence and head are counted in the other order"
            yield whole(words, e.expected_with_input(number, other))


def strides_of_the_input(e: Evidence) -> Iterator[Guess]:
    """The last one forgotten, or all of them."""
    if all(x.is_contiguous() for x in e.inputs):
        return
    words = "a wrong stride: it reads the memory as if the tensor were contiguous"
    yield whole(words, e.spec(*map(_as_if_contiguous, e.inputs)))
    neighbors = [
        x.as_strided(x.shape, (*x.stride()[:-1], 1)) if a.holds == "floats" and x.stride(-1) else x
        for x, a in e.arguments
    ]
    forgotten = "a wrong stride: the last one is forgotten"
    yield whole(forgotten, e.spec(*neighbors))
    wrong = replace(e, inputs=neighbors)
    yield part(f"{forgotten} for the partner", e.cosines + wrong.sines)
    yield part(f"{forgotten} for the element itself", wrong.cosines + e.sines)


def _as_if_contiguous(x: Tensor) -> Tensor:
    return x.new_empty(0).set_(x.untyped_storage(), x.storage_offset(), x.shape)


def case_alone(e: Evidence) -> Iterator[Guess]:
    """What only the case says, after simpler ones came out right."""
    if not e.earlier:
        return
    if e.case.name == "several sequences":
        yield place("the batch: right for one sequence, wrong for several")
    elif e.case.name == "a table longer than the sequence":
        yield place("the table's length: right for a table that ends with the sequence")
    elif e.case.name not in (*STRIDED, TAIL_AND_STRIDE):
        return
    elif e.only_in_tail:
        yield place("a wrong stride, in the tail: right where its elements are neighbors")
    else:
        yield place("a wrong stride: right for contiguous tensors, wrong for this one")


RULES = (position, row, strides_of_the_input, case_alone)
