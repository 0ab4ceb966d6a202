"""What kind of mistake does a wrong result look like?

Each guess is tested on the numbers: a wrong result with every sign turned is right, or it is what
the specification makes of inputs that were read in the wrong order. A guess that the numbers do not
bear out is not made.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .spec import STRIDED, TAIL_AND_STRIDE, Case, Spec


@dataclass
class Evidence:
    """A wrong result and all that can be known of it."""

    spec: Spec
    case: Case
    inputs: list[Tensor]
    got: Tensor
    expected: Tensor
    wrong: Tensor  # where, like `expected`
    nobody_wrote: Callable[[tuple[int, ...]], bool]  # an element of the result
    run: Callable[..., Tensor]  # the candidate on other inputs
    earlier: list[str]  # cases that came out right
    races: list[str]
    twice: list[str]  # places that were stored twice, or read after they were stored
    undefined: bool  # a load had elements masked off, and no `other`
    mistakes: dict[str, Callable]  # words -> a wrong function: those that the specification knows


def kind_of_mistake(evidence: Evidence) -> str:
    """One line: what it looks like, or that it looks like nothing we know."""
    for look in _LOOKS:
        found = look(evidence)
        if found:
            return found
    return "no mistake that this check knows: compare the first wrong index by hand"


def _race(e: Evidence) -> str | None:
    if e.races:
        return f"a race between programs: {e.races[0]}"
    return None


def _of_this_exercise(e: Evidence) -> str | None:
    """A mistake that the specification itself knows."""
    for words, wrong in e.mistakes.items():
        if not words.startswith("rounding") and _is(wrong(*e.inputs), e):
            return words
    return None


def _unwritten(e: Evidence) -> str | None:
    places = e.wrong.nonzero()
    if not all(
        e.nobody_wrote(tuple(place)) for place in places[:: max(1, len(places) // 50)].tolist()
    ):
        return None
    if _only_in_tail(e):
        tail = e.wrong[..., _rotary_dim(e) :]
        if not tail.all():
            return f"part of the tail is never written: {tail.sum()} of its {tail.numel()} elements"
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


def _tail(e: Evidence) -> str | None:
    if not _only_in_tail(e) or e.case.name == TAIL_AND_STRIDE:
        return None
    tail = e.got[..., _rotary_dim(e) :]
    if not tail[e.wrong[..., _rotary_dim(e) :]].any():
        return "the tail is wrong: it is zero, and has to come out as it came in"
    first_row = e.expected.flatten(0, -2)[0, _rotary_dim(e) :]
    if _same(tail, first_row.expand_as(tail), e):
        return "the tail is wrong: every row has the first row's"
    return "the tail is wrong: elements d2 and up have to come out as they came in"


def _sign(e: Evidence) -> str | None:
    if _rotated_back(e):
        if any(name.startswith("grad") for name in e.spec.names):
            return "a sign: it is the gradient for minus the angles; every sine has the wrong sign"
        return "a sign: it rotates by minus the angle"
    if _close(e.got[e.wrong], -e.expected[e.wrong], e):
        return "a sign: " + _opposite(e)
    return None


def _opposite(e: Evidence) -> str:
    """Which elements have the opposite sign."""
    has_sign = e.expected != 0
    if not (has_sign & ~e.wrong).any():
        return "every element has the opposite sign"
    for where, place in _places(e):
        if torch.equal(e.wrong, has_sign & place):
            return f"what is wrong has the opposite sign, in {where}"
    return "what is wrong has the opposite sign"


def _places(e: Evidence) -> tuple[tuple[str, Tensor], ...]:
    """Parts of the last dimension that a wrong sign may be in."""
    place = torch.arange(e.expected.shape[-1])
    in_first = place < _rotary_dim(e) // 2
    return (
        ("the first half", in_first),
        ("the second half", ~in_first),
        ("the first of each two neighbors", place % 2 == 0),
        ("the second of each two neighbors", place % 2 == 1),
    )


def _halves_swapped(e: Evidence) -> str | None:
    d2 = _rotary_dim(e)
    first, second, tail = e.got[..., : d2 // 2], e.got[..., d2 // 2 : d2], e.got[..., d2:]
    if _close(torch.cat((second, first, tail), -1), e.expected, e):
        return "halves swapped: each half is where the other should be"
    if _close(torch.cat((-second, -first, tail), -1), e.expected, e):
        return "halves swapped, and a sign: each half is where the other should be"
    return None


def _neighbors_swapped(e: Evidence) -> str | None:
    d2 = _rotary_dim(e)
    if d2 % 2 or d2 > e.got.shape[-1]:
        return None
    swapped, tail = e.got[..., :d2].unflatten(-1, (-1, 2)).flip(-1).flatten(-2), e.got[..., d2:]
    if _close(torch.cat((swapped, tail), -1), e.expected, e):
        return "neighbors swapped: each of the two is where the other should be"
    if _close(torch.cat((-swapped, tail), -1), e.expected, e):
        return "neighbors swapped, and a sign: each of the two is where the other should be"
    return None


def _order(e: Evidence) -> str | None:
    """Right numbers in a wrong order; and where elements are only to be put in order."""
    d2 = _rotary_dim(e)
    if d2 % 2 or d2 > e.expected.shape[-1]:
        return None
    apart = torch.arange(d2).view(-1, 2).t().flatten()  # neighbors -> halves
    for x, argument in _arguments(e):
        if argument.holds != "floats" or x.shape != e.expected.shape:
            continue
        for there, back in ((apart, apart.argsort()), (apart.argsort(), apart)):
            if _close(_ordered(x, there), e.expected, e) and _is(_ordered(x, back), e):
                return "the order: the permutation goes the other way"
    if _is(_ordered(e.expected, apart), e):
        return "the order: the right numbers, with halves where neighbors are asked for"
    if _is(_ordered(e.expected, apart.argsort()), e):
        if e.spec.angles == "pairs":
            return "the order: the permutation once more, where its inverse is asked for"
        return "the order: the right numbers, with neighbors where halves are asked for"
    for whole in (e.expected, *(x for x, argument in _arguments(e) if argument.holds == "floats")):
        if _is(whole.flip(-1), e):
            return "the order: the last dimension runs backwards"
    return None


def _zero(e: Evidence) -> str | None:
    """Something was never put there."""
    if e.got[e.wrong].any():
        return None
    for where, place in _places(e):
        if torch.equal(e.wrong, (e.expected != 0) & place):
            return f"zero: what is wrong is zero, in {where}"
    return "zero: what is wrong is zero; is a part never computed?"


def _nothing_done(e: Evidence) -> str | None:
    for x, argument in _arguments(e):
        if argument.holds == "floats" and _is(x, e):
            return f"unchanged: the result is {argument.name} as it came"
    return None


def _write_collision(e: Evidence) -> str | None:
    """Before the result is called unchanged: it was changed, and overwritten."""
    stored = [words for words in e.twice if "stores" in words]
    return f"write collision: {stored[0]}" if stored and _nothing_done(e) else None


def _twice(e: Evidence) -> str | None:
    if not e.twice:
        return None
    name = "write collision" if "stores" in e.twice[0] else "read after write"
    return f"{name}: {e.twice[0]}"


def _transposed(e: Evidence) -> str | None:
    if e.expected.dim() > 1 and _is(e.expected.transpose(-1, -2), e):
        return "transposed: rows and columns have changed places"
    return None


def _plain_relation(e: Evidence) -> str | None:
    """The right numbers in another place, or a simple function of them."""
    got, expected = e.got.double(), e.expected.double()
    if got.shape[-1] > 2 and _close(got[..., :-1], expected[..., 1:], e):
        return "shifted: every element is one place too early"
    if got.shape[-1] > 2 and _close(got[..., 1:], expected[..., :-1], e):
        return "shifted: every element is one place too late"
    positive = bool((expected > 0).all() and (got > 0).all())
    if positive and _close(got * expected, torch.ones_like(got), e):
        return "the reciprocal: it is one divided by what is expected"
    if positive and _close(got.log(), expected.log() / 2, e):
        return "a factor in the exponent: it is the square root of what is expected"
    if positive and _close(got.log(), expected.log() * 2, e):
        return "a factor in the exponent: it is the square of what is expected"
    factor = float((got * expected).sum() / (expected * expected).sum())
    if abs(factor) > 1e-2 and _close(got, factor * expected, e):
        return f"a factor: everything is {factor:.3g} times what is expected"
    return None


def _pairing(e: Evidence) -> str | None:
    """The other of the two conventions."""
    d2 = _rotary_dim(e)
    if d2 % 2:
        return None
    order = torch.arange(d2).view(2, -1).t().flatten()  # halves -> neighbors
    for there, back, wanted in (
        (order, order.argsort(), "halves (i, i + d2/2), where neighbors (2i, 2i + 1) are asked"),
        (order.argsort(), order, "neighbors (2i, 2i + 1), where halves (i, i + d2/2) are asked"),
    ):
        inputs = [_reorder(x, there, d2, a.holds) for x, a in _arguments(e)]
        guess = _reorder(e.spec(*inputs), back, d2, "floats")
        if _is(guess, e):
            if e.spec.angles == "pairs" and back is order:  # asked for neighbors, as it pairs
                return "the order: the permutation and its inverse have changed places"
            return f"the wrong pairing: it pairs {wanted} for"
        is_matrix = guess.shape[-2:] == (d2, d2)
        if is_matrix and _is(_reorder(guess.mT, back, d2, "floats").mT, e):
            return f"the wrong pairing: it pairs {wanted} for"
        if not _halves_have_angles(e):
            continue
        # one angle for both of a wrong pair
        asks_neighbors = back is not order
        for pick in (lambda x: x[..., : d2 // 2], lambda x: x[..., ::2]):
            one_angle = [
                _for_both(pick(x), asks_neighbors) if a.holds == "angles" else y
                for x, y, a in zip(e.inputs, inputs, e.spec.arguments, strict=True)
            ]
            if _is(_reorder(e.spec(*one_angle), back, d2, "floats"), e):
                return f"the wrong pairing: it pairs {wanted} for"
        inputs = [
            _reorder(x, there, d2, "floats") if a.holds == "angles" else x for x, a in _arguments(e)
        ]
        if _is(e.spec(*inputs), e):
            return "the wrong angle: the table's angles are in another order than the elements"
    return None


def _gradient_ignored(e: Evidence) -> str | None:
    if e.got.isnan().all():
        return None
    for number, argument in enumerate(e.spec.arguments):
        if not argument.name.startswith("grad"):
            continue
        other = list(e.inputs)
        other[number] = torch.randn(other[number].shape).to(other[number].dtype)
        if _same(e.run(*other), e.got, e):
            return "the gradient is ignored: another incoming gradient gives the same result"
    return None


def _number_ignored(e: Evidence) -> str | None:
    for number, argument in enumerate(e.spec.arguments):
        if argument.holds != "number":
            continue
        other = list(e.inputs)
        other[number] *= 2
        if _same(e.run(*other), e.got, e):
            return f"{argument.name} is ignored: another one gives the same result"
    return None


def _half_angles(e: Evidence) -> str | None:
    """The spec with one half's angles taken for both."""
    if not _halves_have_angles(e):
        return None
    for what, pick in (
        ("the second half takes the first half's angle", lambda a, b: (a, a)),
        ("the first half takes the second half's angle", lambda a, b: (b, b)),
        ("each half takes the other's angle", lambda a, b: (b, a)),
    ):
        if _is(_by_angles(e, lambda x, pick=pick: torch.cat(pick(*x.chunk(2, -1)), -1)), e):
            return f"the wrong angle: {what}"
    for which, one in (("first", 0), ("second", 1)):
        if _is(_by_angles(e, lambda x, one=one: x[..., one::2].repeat_interleave(2, -1)), e):
            return f"the wrong angle: both of two neighbors take the {which} one's angle"
    return None


def _an_angle_for_each_half(e: Evidence) -> str | None:
    """Where the specification asks for one angle a pair."""
    if not _halves_have_angles(e):
        return None
    by_half = [
        _by_angles(e, lambda x, half=half: torch.cat([x.chunk(2, -1)[half]] * 2, -1))
        for half in (0, 1)
    ]
    in_first = torch.arange(e.expected.shape[-1]) < _rotary_dim(e) // 2
    if _is(torch.where(in_first, *by_half), e):
        return "the wrong angle: each half takes its own, where one is asked for both"
    return None


_PARTNERS = (
    ("half", lambda x: x.roll(x.shape[-1] // 2, -1)),
    ("of two neighbors", lambda x: x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)),
)


def _wrong_sine(e: Evidence) -> str | None:
    """A rotation has a cosine part, the same for minus the angle, and a sine part, which turns."""
    if not any(argument.holds == "angles" for argument in e.spec.arguments):
        return None

    cosines, sines = _parts(e, lambda x: x)
    for where, sign in _places(e):
        if _is(cosines + torch.where(sign, -sines, sines), e):
            return f"a sign: that of the sine in {where}"
    if not _halves_have_angles(e):
        return None
    if e.spec.angles != "unlike":
        return None
    for who, swap in _PARTNERS:
        _, swapped = _parts(e, swap)
        if _is(cosines + swapped, e):
            return f"the wrong sine: each {who} takes the sine that the other should take"
        if _is(cosines - swapped, e):
            return "a sign and the wrong sine: the map itself, where its transpose is asked for"
        for where, here in _places(e):
            if _is(cosines + torch.where(here, swapped, sines), e):
                return f"the wrong sine, in {where}: the other {who} should take it"
            if _is(cosines + torch.where(here, -swapped, sines), e):
                return f"a sign and the wrong sine, in {where}: the map itself, not its transpose"
    return None


def _wrong_cosine(e: Evidence) -> str | None:
    """The partner's angle for the cosine, too, which the turned vector's own element keeps."""
    if not _halves_have_angles(e) or e.spec.angles != "unlike":
        return None

    for who, swap in _PARTNERS:
        cosines, sines_of_other = _parts(e, swap)
        _, sines_of_own = _parts(e, lambda x: x)
        if any(_is(cosines + sines, e) for sines in (sines_of_own, sines_of_other)):
            return f"the wrong cosine: each {who} takes the cosine of the other's angle"
    return None


def _other_function(e: Evidence) -> str | None:
    """A cosine where a sine belongs, or the other way: those of the angle plus a quarter turn."""
    if not any(argument.holds == "angles" for argument in e.spec.arguments):
        return None
    cosines, sines = _parts(e, lambda x: x)
    minus_sines, with_cosine = _parts(e, lambda x: x + torch.pi / 2)
    if _is(with_cosine - minus_sines, e):
        return "the wrong function: sine and cosine have changed places"
    everywhere = ("every element", torch.ones(cosines.shape[-1], dtype=torch.bool))
    for where, place in (everywhere, *_places(e)):
        if _is(cosines + torch.where(place, with_cosine, sines), e):
            return f"the wrong function: a cosine for the sine, in {where}"
        if _is(torch.where(place, -minus_sines, cosines) + sines, e):
            return f"the wrong function: a sine for the cosine, in {where}"
    return None


def _members(e: Evidence) -> str | None:
    """The two of a pair: exchanged when they were loaded, or one of them its own partner."""
    d2 = _rotary_dim(e)
    has_angles = any(argument.holds == "angles" for argument in e.spec.arguments)
    if d2 % 2 or not has_angles:
        return None
    place = torch.arange(d2)
    for number, (x, argument) in enumerate(_arguments(e)):
        if argument.holds != "floats" or x.shape != e.expected.shape:
            continue
        for order in (place.roll(d2 // 2), place.unflatten(0, (-1, 2)).flip(-1).flatten()):
            exchanged = _with_input(e, number, _ordered(x, order))
            if _is(exchanged, e):
                return "the wrong members: the two of a pair are exchanged when they are loaded"
            cosines, sines = _parts(e, lambda angle: angle)
            inputs = [*e.inputs[:number], _ordered(x, order), *e.inputs[number + 1 :]]
            _, of_itself = _parts(replace(e, inputs=inputs), lambda angle: angle)
            for where, here in _places(e):
                for sign in (1, -1):
                    if _is(cosines + torch.where(here, sign * of_itself, sines), e):
                        return f"the wrong partner: in {where} each element is its own"
    return None


def _columns_of_the_table(e: Evidence) -> str | None:
    """Row and column of an angle, counted in pairs where elements are meant."""
    for x, argument in _arguments(e):
        if argument.holds != "angles" or x.dim() != 4 or x.shape[-1] % 2:
            continue
        d2, half = x.shape[-1], x.shape[-1] // 2
        steps = torch.arange(x.shape[0])[:, None] * half + torch.arange(d2)
        narrow = x.flatten()[steps].view(x.shape)
        one_a_pair = x[..., :half].repeat_interleave(2, -1)
        for wrong, words in (
            (narrow, "the step of the table: the row of the next position begins d2 elements on"),
            (one_a_pair, "the columns of the table: the angle of pair i is in column 2i, not i"),
        ):
            if _is(_by_angles(e, lambda _, wrong=wrong: wrong), e):
                return words
    return None


def _position(e: Evidence) -> str | None:
    """Angles of rows counted in another way than by position."""
    if _is(_by_angles(e, lambda x: x[:1].expand_as(x)), e):
        return "the wrong position: the angle is that of 0, the first position"
    floats = next((x for x, a in _arguments(e) if a.holds == "floats" and x.dim() == 4), None)
    table = next((x for x, a in _arguments(e) if a.holds == "angles"), None)
    if floats is None or table is None or e.expected.dim() != 4:
        return None
    if any(argument.holds == "positions" for argument in e.spec.arguments):
        return None  # positions are given: `_position_ids`
    s, b, h, _ = e.expected.shape
    row = torch.arange(s * b * h).view(s, b, h)
    position = row // (b * h)
    numbers = {
        "the row's number": row,
        "the row's number divided by h alone": row // h,
        "the row's number divided by b alone": row // b,
        "the head's number": row % h,
        "0, the first position": row * 0,
        "the sequence's number": row // h % b,
        "the position plus 1": position + 1,
        "the position counted from the end of the table": position + len(table) - s,
    }
    for what, wrong_position in numbers.items():
        inside = wrong_position < len(table)
        agrees = True
        for p in range(len(table)):
            here = inside & (wrong_position == p)
            if here.any():
                turned = e.spec(
                    *[
                        x[p : p + 1].expand_as(x) if a.holds == "angles" else x
                        for x, a in _arguments(e)
                    ]
                )
                agrees = agrees and _close(e.got[here], turned[here], e)
        if agrees and (inside & (wrong_position != position)).any():
            return f"the wrong position: the angle is that of {what}"
    return None


def _position_ids(e: Evidence) -> str | None:
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
        if not torch.equal(others, ids) and _is(_with_input(e, number, others), e):
            return f"the wrong position: {what}"
    if ids.dim() > 2:
        by_section = torch.stack([_with_input(e, number, ids[[k, k, k]]) for k in range(3)])
        difference = (by_section.double() - e.got.double()).abs().amin(0)
        if _close(difference, torch.zeros_like(difference), e):
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
            if _is(_with_input(e, number, moved), e):
                return f"the wrong token: {argument.name} is read where the position says, too"
    return None


def _with_input(e: Evidence, number: int, value: Tensor) -> Tensor:
    """What the specification makes of the inputs with one of them replaced."""
    return e.spec(*(*e.inputs[:number], value, *e.inputs[number + 1 :]))


def _rows_counted(e: Evidence) -> str | None:
    """The number of a row taken apart in another order."""
    for number, (x, argument) in enumerate(_arguments(e)):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            other = x.transpose(1, 2).reshape(x.shape)
            if not torch.equal(other, x) and _is(_with_input(e, number, other), e):
                return "the wrong row: sequence and head are counted in the other order"
    return None


def _strides_exchanged(e: Evidence) -> str | None:
    """Of the first three dimensions."""
    for x, argument in _arguments(e):
        if argument.holds != "floats" or x.dim() != 4 or e.case.name in STRIDED:
            continue
        for order, names in (
            ((1, 0, 2), "s and b"),
            ((0, 2, 1), "b and h"),
            ((2, 1, 0), "s and h"),
        ):
            strides = [*(x.stride(dimension) for dimension in order), x.stride(3)]
            reach = sum((size - 1) * step for size, step in zip(x.shape, strides, strict=True))
            memory = x.new_zeros(max(reach + 1, x.numel()))
            memory[: x.numel()] = x.flatten()
            wrong = memory.as_strided(x.shape, strides)
            inputs = [wrong if y is x else y for y in e.inputs]
            if x.is_contiguous() and _is(e.spec(*inputs), e):
                return f"a wrong stride: those of {names} have changed places"
    return None


def _strides(e: Evidence) -> str | None:
    """Inputs read as if they were contiguous, or a result laid down like a strided input."""
    inputs = []
    for x, argument in _arguments(e):
        if argument.holds == "number":
            inputs.append(x)
            continue
        memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
        missing = x.numel() - memory.numel()
        if missing > 0:
            memory = torch.cat((memory, memory.new_zeros(missing)))
        inputs.append(memory[: x.numel()].view(x.shape))
    strided = any(isinstance(x, Tensor) and not x.is_contiguous() for x in e.inputs)
    if strided and _mostly(e.spec(*inputs), e):
        return "a wrong stride: it reads the memory as if the tensor were contiguous"
    if e.case.name in (*STRIDED, TAIL_AND_STRIDE) and e.earlier:
        found = _last_stride(e) or _laid_out_like_its_input(e)
        if found:
            return found
        if not e.got.is_contiguous() and not e.spec.overwrites:
            return "a wrong stride: the output is not contiguous, because its input is not"
        if _only_in_tail(e):
            return "a wrong stride, in the tail: right where its elements are neighbors"
        return "a wrong stride: right for contiguous tensors, wrong for this one"
    return None


def _last_stride(e: Evidence) -> str | None:
    """Forgotten: elements of a row are read as if they were side by side."""
    if e.case.layout != STRIDED[-1]:
        return None
    inputs = [
        x.as_strided(x.shape, (*x.stride()[:-1], 1)) if argument.holds == "floats" else x
        for x, argument in _arguments(e)
    ]
    if _is(e.spec(*inputs), e):
        return "a wrong stride: the last one is forgotten"
    if not any(argument.holds == "angles" for argument in e.spec.arguments):
        return None
    cosines, sines = _parts(e, lambda x: x)
    own_wrong, partner_wrong = _parts(replace(e, inputs=inputs), lambda x: x)
    if _is(cosines + partner_wrong, e):
        return "a wrong stride: the last one is forgotten for the partner"
    if _is(own_wrong + sines, e):
        return "a wrong stride: the last one is forgotten for the element itself"
    return None


def _laid_out_like_its_input(e: Evidence) -> str | None:
    """A contiguous output, stored by the strides of an input that is not contiguous."""
    for x, argument in _arguments(e):
        if argument.holds != "floats" or x.shape != e.expected.shape or x.is_contiguous():
            continue
        reach = 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
        memory = e.expected.new_zeros(max(reach, x.numel()))
        memory.as_strided(x.shape, x.stride()).copy_(e.expected)
        if _is(memory[: x.numel()].view(x.shape), e):
            return "a wrong stride: the output is stored by the strides of its input"
    return None


def _rest_of_block(e: Evidence) -> str | None:
    if _last_of_memory(e) and e.earlier:
        return "the rest: the last elements, which fill no whole block, are wrong"
    return None


def _rounding(e: Evidence) -> str | None:
    if _only_in_tail(e):
        return None  # nothing is computed there
    got, expected = e.got.double(), e.expected.double()
    largest = float(expected.abs().max())
    if not ((got - expected).abs() <= 4 * torch.finfo(torch.float16).eps * largest).all():
        return None
    for words, wrong in e.mistakes.items():  # bit for bit, but for a few
        if words.startswith("rounding") and (wrong(*e.inputs) == e.got).double().mean() > 0.9:
            return words
    return "rounding: compute in fp32, and round once, at the end"


def _weights(e: Evidence) -> str | None:
    """Of a row that is normalized and multiplied by weights before it is rotated."""
    number = next((n for n, a in enumerate(e.spec.arguments) if a.name == "weight"), None)
    if number is None or _is_gradient(e):
        return None
    weight, one = e.inputs[number], torch.ones_like(e.inputs[number])
    first, second = weight.chunk(2, -1)
    for words, other in (
        ("each half takes the other half's weights", torch.cat((second, first), -1)),
        ("the second half takes the first half's weights", torch.cat((first, first), -1)),
        ("the first half takes the second half's weights", torch.cat((second, second), -1)),
        ("no weights are applied", one),
    ):
        if _is(_with_input(e, number, other), e):
            return f"the wrong weight: {words}"
    unweighted = _with_input(e, number, one)
    if _is((unweighted.double() * weight.double()).to(e.got.dtype), e):
        return "the wrong order: the weights are applied after the rotation, not before"
    return None


def _mean_square(e: Evidence) -> str | None:
    """Of such a row: what is summed, and where the 1e-6 belongs."""
    if not any(argument.name == "weight" for argument in e.spec.arguments):
        return None
    if e.expected.dim() != 4:
        return _masked_rows(e)
    x = next(x for x, a in _arguments(e) if a.name in ("t", "x")).double()
    rows_of_zeros = (x == 0).all(-1)
    if rows_of_zeros.any() and e.got[rows_of_zeros].isnan().all():
        return "0/0: a row of zeros comes out as NaN; the 1e-6 under the root is missing"
    if _is_gradient(e):
        return None
    whole, epsilon = x.square().mean(-1, keepdim=True), 1e-6
    other = _other_epsilon(e, whole, epsilon)
    if other:
        return f"another number under the root: {other:.0e}, where {epsilon:.0e} is asked for"
    if _close(e.got, e.expected, e):  # and so is many a guess
        return None
    first, second = (half.square().sum(-1, keepdim=True) / x.shape[-1] for half in x.chunk(2, -1))
    for words, root in (
        ("half of the sum is missing: only the first half is squared", (first + epsilon).sqrt()),
        ("half of the sum is missing: only the second half is squared", (second + epsilon).sqrt()),
        ("the wrong mean: the first half's alone", (2 * first + epsilon).sqrt()),
        ("the wrong mean: the second half's alone", (2 * second + epsilon).sqrt()),
        ("the 1e-6 is in the wrong place: it belongs under the root", whole.sqrt() + epsilon),
        ("the 1e-6 under the root is missing", whole.sqrt()),
        ("the root is missing: the row is divided by its mean square", whole + epsilon),
    ):
        guess = e.expected.double() * ((whole + epsilon).sqrt() / root).nan_to_num()
        if _is(guess.to(e.got.dtype), e):
            return words
    return None


def _masked_rows(e: Evidence) -> str | None:
    """Of a gradient that is a sum over rows: a row that is masked off is 0, and its 0/0 is NaN."""
    if not e.got.isnan().all():
        return None
    whole_tiles = [
        torch.randn(x.shape[0], 1, 8, x.shape[-1], dtype=x.dtype)
        if x.dim() == 4 and argument.holds == "floats"
        else x
        for x, argument in _arguments(e)
    ]
    if e.run(*whole_tiles).isfinite().all():
        return "0/0: a masked row, all zeros, adds NaN; the 1e-6 under the root is missing"
    return None


def _is_gradient(e: Evidence) -> bool:
    return any(argument.name.startswith("grad") for argument in e.spec.arguments)


def _other_epsilon(e: Evidence, whole: Tensor, epsilon: float) -> float | None:
    """What is added to the mean square, if each row is right but for that."""
    got, expected = e.got.double(), e.expected.double()
    if e.got.dtype != torch.float32 or not got.isfinite().all():
        return None
    scale = (got * expected).sum(-1, keepdim=True) / expected.square().sum(-1, keepdim=True)
    if not torch.allclose(got, scale * expected, rtol=1e-5, atol=1e-5):
        return None
    added = ((whole + epsilon) / scale.square() - whole).flatten()
    found = float(added.median())
    alike = (added - found).abs() <= 0.1 * abs(found) + 1e-6
    return found if alike.all() and found > 3 * epsilon else None


def _factor_in_a_part(e: Evidence) -> str | None:
    """The sine's products, or the cosine's, or one half, times a factor that all should have."""
    if not any(argument.holds == "angles" for argument in e.spec.arguments):
        return None
    got = e.got.double()
    cosines, sines = (part.double() for part in _parts(e, lambda x: x))
    half, column = _rotary_dim(e) // 2, torch.arange(got.shape[-1])
    for where, here in (
        ("", column >= 0),
        (", in the first half", column < half),
        (", in the second half", (column >= half) & (column < 2 * half)),
    ):
        for name, whole in (("sine", sines), ("cosine", cosines)):
            part = torch.where(here, whole, 0.0)
            rest = cosines + sines - part
            if not part.any():
                continue
            factor = float(((got - rest) * part).sum() / (part * part).sum())
            if abs(factor) < 1e-2 and _close(got, rest, e):
                return f"the {name} is missing{where}: its products are left out"
            if abs(factor) > 1e-2 and _close(got, rest + factor * part, e):
                times = f"they are {factor:.3g} times what is expected"
                return f"a factor in the {name}'s products{where}: {times}"
    member = _factor_in_a_member(e)
    if member:
        return member
    for name, place in (("first", slice(None, half)), ("second", slice(half, 2 * half))):
        one, want = got[..., place], e.expected[..., place].double()
        factor = float((one * want).sum() / (want * want).sum())
        guess = e.expected.double().clone()
        guess[..., place] *= factor
        if abs(factor) > 1e-2 and _close(got, guess, e):
            return f"a factor in the {name} half: it is {factor:.3g} times what is expected"
    return None


def _factor_in_a_member(e: Evidence) -> str | None:
    """One half of what is rotated times a factor, before it is rotated."""
    x = e.inputs[0]
    if x.shape != e.expected.shape:
        return None
    first = torch.arange(x.shape[-1]) < _rotary_dim(e) // 2
    got = e.got.double()
    for name, place in (("first", first), ("second", ~first)):
        part, rest = (
            _with_input(e, 0, torch.where(here, x, torch.zeros_like(x))).double()
            for here in (place, ~place)
        )
        factor = float(((got - rest) * part).sum() / (part * part).sum())
        if abs(factor) > 1e-2 and _close(got, rest + factor * part, e):
            return (
                f"a factor in the {name} member of each pair, before it is rotated: "
                f"{factor:.3g} times what is expected"
            )
    return None


def _masked_elements(e: Evidence) -> str | None:
    """What a load without `other` gives where its mask is false, in the result."""
    collision = any("stores" in words for words in e.twice)
    is_nan = e.got.is_floating_point() and e.got[e.wrong].isnan().all()
    if e.undefined and is_nan and not collision:
        return (
            "NaN: an element that is masked off is used; a load without `other` leaves it undefined"
        )
    return None


def _longer_table(e: Evidence) -> str | None:
    if e.case.name == "a table longer than the sequence" and e.earlier:
        return "the table's length: right for a table that ends with the sequence"
    return None


def _several_sequences(e: Evidence) -> str | None:
    if e.case.name == "several sequences" and e.earlier:
        return "the batch: right for one sequence, wrong for several"
    return None


_LOOKS = (
    _race,
    _unwritten,
    _mean_square,
    _masked_elements,
    _rounding,
    _of_this_exercise,
    _sign,
    _halves_swapped,
    _neighbors_swapped,
    _gradient_ignored,
    _number_ignored,
    _half_angles,
    _wrong_sine,
    _an_angle_for_each_half,
    _wrong_cosine,
    _columns_of_the_table,
    _weights,
    _pairing,
    _other_function,
    _members,
    _write_collision,
    _nothing_done,
    _order,
    _transposed,
    _plain_relation,
    _factor_in_a_part,
    _tail,
    _zero,
    _position,
    _position_ids,
    _rows_counted,
    _strides_exchanged,
    _twice,
    _rest_of_block,
    _strides,
    _several_sequences,
    _longer_table,
)


def _arguments(e: Evidence):
    return zip(e.inputs, e.spec.arguments, strict=True)


def _by_angles(e: Evidence, change: Callable[[Tensor], Tensor]) -> Tensor:
    """What the specification makes of other angles."""
    return e.spec(*[change(x) if a.holds == "angles" else x for x, a in _arguments(e)])


def _parts(e: Evidence, change: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The cosine part of a rotation, which minus the angle leaves as it is, and the sine part."""
    forth, back = _by_angles(e, change), _by_angles(e, lambda x: -change(x))
    return (forth + back) / 2, (forth - back) / 2


def _rotary_dim(e: Evidence) -> int:
    """How many elements of the last dimension turn, as far as the angles tell."""
    for x, argument in _arguments(e):
        if argument.holds == "angles" and argument.letters[-1:] in (("d2",), ("p",)):
            return x.shape[-1] * (2 if argument.letters[-1] == "p" else 1)
    return e.expected.shape[-1]


def _halves_have_angles(e: Evidence) -> bool:
    """Does each half have angles of its own, rather than each pair one?"""
    tables = [argument for argument in e.spec.arguments if argument.holds == "angles"]
    return bool(tables) and all(argument.letters[-1] in ("d2", "d") for argument in tables)


def _only_in_tail(e: Evidence) -> bool:
    return bool(_rotary_dim(e) < e.expected.shape[-1]) and not e.wrong[..., : _rotary_dim(e)].any()


def _last_of_memory(e: Evidence) -> bool:
    """Is all that is wrong at the end, and the larger part right?"""
    wrong = e.wrong.flatten()
    first = int(wrong.nonzero()[0])
    return first > len(wrong) // 3 and float(wrong[first:].float().mean()) > 0.9


def _rotated_back(e: Evidence) -> bool:
    has_angles = any(argument.holds == "angles" for argument in e.spec.arguments)
    return has_angles and _is(_by_angles(e, torch.neg), e)


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    return torch.cat((x[..., order], x[..., len(order) :]), -1)


def _reorder(x: Tensor, order: Tensor, d2: int, holds: str) -> Tensor:
    if holds in ("positions", "number") or x.shape[-1] < d2:
        return x
    return _ordered(x, order)


def _for_both(angle: Tensor, neighbors: bool) -> Tensor:
    """A table from the angle of each pair."""
    return angle.repeat_interleave(2, -1) if neighbors else torch.cat((angle, angle), -1)


def _is(guess: Tensor, e: Evidence) -> bool:
    return guess.shape == e.got.shape and _close(e.got, guess, e)


def _mostly(guess: Tensor, e: Evidence) -> bool:
    """For memory that ends before the wrongly read tensor does."""
    if guess.shape != e.got.shape:
        return False
    close = torch.isclose(e.got.double(), guess.double(), rtol=1e-2, atol=1e-4)
    return bool(close.double().mean() > 0.5)


def _same(a: object, b: Tensor, e: Evidence) -> bool:
    return isinstance(a, Tensor) and a.shape == b.shape and _close(a, b, e)


def _close(a: Tensor, b: Tensor, e: Evidence) -> bool:
    relative = 1e-4 if e.expected.dtype in (torch.float32, torch.float64) else 1e-2
    return a.numel() > 0 and torch.allclose(
        a.double(), b.double(), rtol=relative, atol=relative, equal_nan=True
    )
