"""Guesses at wrong elements: sign or factor, pairs, and where they are read or stored."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from ..spec import HALF_PRECISION, MANY, STRIDED, TAIL_AND_STRIDE
from .evidence import Evidence, Guess, fitted, part, parts, place, whole

# a sign, a factor


def sign(e: Evidence) -> Iterator[Guess]:
    """The sign of every wrong element. (For that of an angle or a sine, see `wrong_angles.py`.)"""
    words = "a sign: every element has the opposite sign"
    if e.trace and e.trace.scatters:
        words += "; the kernel scatters: it stores an element at its partner's index, with its "
        words += "own sign. Load from the partner instead, and store at the lane's own index"
    yield whole(words, -e.expected)
    if e.close(e.got[e.wrong], -e.expected[e.wrong]):
        has_sign = e.expected != 0
        for name, here in e.places.items():
            if torch.equal(e.wrong, has_sign & here):
                yield part(f"a sign: what is wrong has the opposite sign, in {name}")


def factor(e: Evidence) -> Iterator[Guess]:
    """The factor by which the result is closest to the expected one."""
    got, expected = e.got.double(), e.expected.double()
    times = float((got * expected).sum() / (expected * expected).sum())
    if abs(times) > 1e-2:
        words = f"a factor: everything is {times:.3g} times what is expected"
        yield fitted(words, times * expected)


# pairs


def swapped(e: Evidence) -> Iterator[Guess]:
    """The two of a pair have changed places: the halves, or two neighbors."""
    d2 = min(e.rotary_dim, e.expected.shape[-1])
    halves = torch.arange(d2).roll(d2 // 2)
    neighbors = torch.arange(d2 - d2 % 2).view(-1, 2).flip(-1).flatten()
    for order, words in (
        (halves, "halves swapped{}: each half is where the other should be"),
        (neighbors, "neighbors swapped{}: each of the two is where the other should be"),
    ):
        there = _ordered(e.expected, order)
        turns = torch.arange(there.shape[-1]) < len(order)
        yield whole(words.format(""), there)
        yield whole(words.format(", and a sign"), torch.where(turns, -there, there))


def pairing(e: Evidence) -> Iterator[Guess]:
    """The other of the two conventions, for the elements, their angles, or both."""
    d2 = e.rotary_dim
    if d2 % 2:
        return
    together = torch.arange(d2).view(2, -1).t().flatten()  # halves -> neighbors
    halves, neighbors = "halves (i, i + d2/2)", "neighbors (2i, 2i + 1)"
    for there, back, paired, asked in (
        (together, together.argsort(), halves, neighbors),
        (together.argsort(), together, neighbors, halves),
    ):
        words = f"the wrong pairing: it pairs {paired}, expected {asked}"
        inputs = [_ordered(x, there) for x in e.inputs]
        yield whole(words, _ordered(e.spec(*inputs), back))
        inputs = [x if a.holds == "angles" else _ordered(x, there) for x, a in e.arguments]
        yield whole(words, _ordered(e.spec(*inputs), back))


_OTHER_PART = {  # of those in `Evidence.places`
    "the first half": "the second half",
    "the second half": "the first half",
    "the first of each two neighbors": "the second of each two neighbors",
    "the second of each two neighbors": "the first of each two neighbors",
}


def overwritten_members(e: Evidence) -> Iterator[Guess]:
    """`x1 = x1 * c1 - x2 * s1`, and then x2 * c2 + x1 * s2 with the new x1; or the other way."""
    x = e.inputs[0]
    if x.shape != e.expected.shape or not e.sines.any():
        return
    if e.stored_twice or e.reread:
        return  # what was seen: it was overwritten in memory
    for one, other in _OTHER_PART.items():
        here = e.places[one]
        of_the_new = e.expected_with_input(0, torch.where(here, e.expected, x))
        words = f"overwritten too early: {other} is computed from the results of {one}"
        yield part(f"{words}; keep what was loaded", torch.where(here, e.expected, of_the_new))


def one_half(e: Evidence) -> Iterator[Guess]:
    """One half of what is loaded is used for both."""
    for half, other, number in (("first", "second", 0), ("second", "first", 1)):
        inputs = [x if a.holds == "angles" else _half_twice(x, number, e) for x, a in e.arguments]
        words = f"the {half} half is taken for both: where is the {other} one loaded?"
        yield whole(words, e.spec(*inputs))


def _half_twice(x: Tensor, number: int, e: Evidence) -> Tensor:
    """With one half of the rotated elements instead of both."""
    half = min(e.rotary_dim, x.shape[-1]) // 2
    taken = x[..., number * half : (number + 1) * half]
    return torch.cat((taken, taken, x[..., 2 * half :]), -1)


def members_of_a_pair(e: Evidence) -> Iterator[Guess]:
    """The element instead of its partner, or the two exchanged."""
    pairs = e.pairs
    if pairs is None or not pairs.has_angles:
        return
    x, partner = pairs.elements, pairs.partners
    itself, exchanged = pairs.of(x, x), pairs.of(partner, x)
    words = "the partner is missing: the sine multiplies the element itself"
    yield whole(words, itself)
    yield whole("the pair's members have changed places: the cosine takes the partner", exchanged)
    yield from parts(e, f"{words}, in ", itself, pairs.result)
    for where, here in e.places.items():
        yield whole(words, torch.where(here, 2 * pairs.own * x - itself, itself))  # and no sign
        have_changed = f"the pair's members have changed places in {where}"
        result = torch.where(here, exchanged, pairs.result)
        yield part(f"{have_changed}: the cosine takes the partner", result)
        result = torch.where(here, x, pairs.result)
        yield part(f"unchanged in {where}: it comes out as it came", result)


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    """The first elements or angles of each row in this order, if there are enough."""
    return x if x.shape[-1] < len(order) else torch.cat((x[..., order], x[..., len(order) :]), -1)


# rows and strides


def row(e: Evidence) -> Iterator[Guess]:
    """The number of a row taken apart in another order."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            other = x.transpose(1, 2).reshape(x.shape)
            words = "the wrong row: sequence and head are counted in the other order"
            yield whole(words, e.expected_with_input(number, other))


def heads_by_a_mask(e: Evidence) -> Iterator[Guess]:
    """`row & (h - 1)` instead of `row % h`, in the address of a load."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            s, b, h, _ = x.shape
            row = torch.arange(s * b * h).view(s, b, h)
            other = x[row // (b * h), row // h % b, row & (h - 1)]
            words = "the wrong head: row & (h - 1) is row % h only where h is a power of two"
            yield whole(words, e.expected_with_input(number, other))


def order_of_the_tail(e: Evidence) -> Iterator[Guess]:
    """The tail before the rotated elements, or the last elements rotated instead of the first."""
    d2, d = e.rotary_dim, e.expected.shape[-1]
    if d2 == d:
        return
    words = "the wrong order: the tail comes first, and belongs after what is rotated"
    yield whole(words, e.expected.roll(d - d2, -1))
    inputs = [x.roll(d2, -1) if a.holds == "floats" else x for x, a in e.arguments]
    words = "the wrong part: the last d2 elements are rotated instead of the first"
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
    """What only the case shows, after simpler cases came out right."""
    if not e.earlier:
        return
    if e.case.name == "several sequences":
        yield place("the batch: right for one sequence, wrong for several")
    elif e.case.name == "a table longer than the sequence":
        yield place("the table's length: right for a table that ends with the sequence")
    elif e.case.name == HALF_PRECISION[1]:
        words = "right in fp32 and fp16; does it convert to fp16, which ends at 65504?"
        yield place(f"bfloat16: {words}")
    elif e.case.name == MANY:
        words = "is the grid, a position or an offset limited?"
        yield place(f"the size: right for smaller tensors; {words}")
    elif e.case.options:
        name = next(iter(e.case.options))
        yield place(f"right with the default of `{name}`: is a number written where it belongs?")
    elif e.case.name not in (*STRIDED, TAIL_AND_STRIDE):
        return
    elif e.only_in_tail:
        yield place("a wrong stride, in the tail: right where its elements are neighbors")
    else:
        yield place("a wrong stride: right for contiguous tensors, wrong for this one")


RULES = (
    sign,
    factor,
    swapped,
    pairing,
    overwritten_members,
    one_half,
    members_of_a_pair,
    row,
    heads_by_a_mask,
    order_of_the_tail,
    strides_of_the_input,
    one_stride,
    stored_as_contiguous,
    case_alone,
)
