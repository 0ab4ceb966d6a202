"""Another row, position or stride: how what is read, and what is stored, is counted."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

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


def heads_by_a_mask(e: Evidence) -> Iterator[Guess]:
    """`row & (h - 1)` for `row % h`, where a row is read."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            s, b, h, _ = x.shape
            row = torch.arange(s * b * h).view(s, b, h)
            other = x[row // (b * h), row // h % b, row & (h - 1)]
            words = "the wrong head: row & (h - 1) is row % h only where h is a power of two"
            yield whole(words, e.expected_with_input(number, other))


def order_of_the_tail(e: Evidence) -> Iterator[Guess]:
    """The tail before what turns, or the last elements turned instead of the first."""
    d2, d = e.rotary_dim, e.expected.shape[-1]
    if d2 == d:
        return
    words = "the wrong order: the tail comes first, and belongs after what is turned"
    yield whole(words, e.expected.roll(d - d2, -1))
    inputs = [x.roll(d2, -1) if a.holds == "floats" else x for x, a in e.arguments]
    words = "the wrong part: the last d2 elements are turned, where the first are asked for"
    yield whole(words, e.spec(*inputs))
    yield whole(words, e.spec(*inputs).roll(-d2, -1))


_DIMENSIONS = {"s": "positions", "b": "sequences", "h": "heads", "g": "heads"}


def one_stride(e: Evidence) -> Iterator[Guess]:
    """Two strides of an input exchanged, or one that is a contiguous tensor's."""
    for number, (x, argument) in enumerate(e.arguments):
        names = [_DIMENSIONS.get(letter) for letter in argument.letters]
        known = [i for i, name in enumerate(names) if name]
        if argument.holds != "floats" or x.shape != e.expected.shape:
            continue
        contiguous = torch.empty(x.shape, device="meta").stride()
        others = {}
        for i, j in combinations(known, 2):
            words = f"a wrong stride: those of {names[i]} and {names[j]} have changed places"
            others[words] = {i: x.stride(j), j: x.stride(i)}
        for i in known:
            words = f"a wrong stride: that of {names[i]} is taken for a contiguous tensor's"
            others[words] = {i: contiguous[i]}
        for words, changed in others.items():
            other = tuple(changed.get(i, step) for i, step in enumerate(x.stride()))
            steps = sum((size - 1) * step for size, step in zip(x.shape, other, strict=True))
            memory = x.untyped_storage().nbytes() // x.element_size()
            if other != x.stride() and x.storage_offset() + steps < memory:
                read = x.as_strided(x.shape, other)
                yield whole(words, e.expected_with_input(number, read))


def stored_as_contiguous(e: Evidence) -> Iterator[Guess]:
    """In a result that has its input's strides, as `empty_like` makes it."""
    got = e.got
    is_dense = got.untyped_storage().nbytes() == got.numel() * got.element_size()
    if is_dense and not got.is_contiguous():
        words = "a wrong stride: empty_like keeps those of its input, and the kernel stores rows"
        stored = e.expected.flatten().as_strided(got.shape, got.stride())
        yield whole(f"{words} one after the other", stored)


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


RULES = (
    *(position, row, heads_by_a_mask, order_of_the_tail),
    *(strides_of_the_input, one_stride, stored_as_contiguous, case_alone),
)
