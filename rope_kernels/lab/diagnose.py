"""What kind of mistake does a wrong result look like?

Each guess is tested on the numbers: a wrong result with every sign turned is right, or it is what
the specification makes of inputs that were read in the wrong order. A guess that the numbers do not
bear out is not made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .spec import STRIDED, Case, Spec


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


def _unwritten(e: Evidence) -> str | None:
    places = e.wrong.nonzero()
    if not all(
        e.nobody_wrote(tuple(place)) for place in places[:: max(1, len(places) // 50)].tolist()
    ):
        return None
    if _only_in_tail(e):
        return "the tail is forgotten: elements d2 and up are never written"
    if _last_of_memory(e):
        return "unwritten: no program stores the last elements; is the grid large enough?"
    return "unwritten: no program stores these elements"


def _tail(e: Evidence) -> str | None:
    if _only_in_tail(e):
        return "the tail is wrong: elements d2 and up have to come out as they came in"
    return None


def _sign(e: Evidence) -> str | None:
    if _close(e.got[e.wrong], -e.expected[e.wrong], e):
        return "a sign: what is wrong has the opposite sign"
    if _rotated_back(e):
        return "a sign: it rotates by minus the angle"
    return None


def _halves_swapped(e: Evidence) -> str | None:
    d2 = _rotary_dim(e)
    first, second, tail = e.got[..., : d2 // 2], e.got[..., d2 // 2 : d2], e.got[..., d2:]
    if _close(torch.cat((second, first, tail), -1), e.expected, e):
        return "halves swapped: each half stands where the other belongs"
    if _close(torch.cat((-second, -first, tail), -1), e.expected, e):
        return "halves swapped, and a sign: each half stands where the other belongs"
    return None


def _pairing(e: Evidence) -> str | None:
    """The other of the two conventions."""
    d2 = _rotary_dim(e)
    order = torch.arange(d2).view(2, -1).t().flatten()  # halves -> neighbours
    for there, back, wanted in (
        (order, order.argsort(), "neighbours (2i, 2i + 1), where halves (i, i + d2/2) are asked"),
        (order.argsort(), order, "halves (i, i + d2/2), where neighbours (2i, 2i + 1) are asked"),
    ):
        inputs = [_reorder(x, there, d2, a.holds) for x, a in _arguments(e)]
        if _is(_reorder(e.spec(*inputs), back, d2, "floats"), e):
            return f"the wrong pairing: it pairs {wanted} for"
    return None


def _gradient_ignored(e: Evidence) -> str | None:
    for number, argument in enumerate(e.spec.arguments):
        if not argument.name.startswith("grad"):
            continue
        other = [x.clone() for x in e.inputs]
        other[number] = torch.randn(other[number].shape).to(other[number].dtype)
        if _same(e.run(*other), e.got, e):
            return "the gradient is ignored: another incoming gradient gives the same result"
    return None


def _half_angles(e: Evidence) -> str | None:
    """The spec with one half's angles taken for both."""
    for what, pick in (
        ("the second half takes the first half's angle", lambda a, b: (a, a)),
        ("the first half takes the second half's angle", lambda a, b: (b, b)),
        ("each half takes the other's angle", lambda a, b: (b, a)),
    ):
        inputs = [
            torch.cat(pick(*x.chunk(2, -1)), -1) if argument.holds == "angles" else x
            for x, argument in _arguments(e)
        ]
        if _is(e.spec(*inputs), e):
            return f"the wrong angle: {what}"
    return None


def _wrong_sine(e: Evidence) -> str | None:
    """A rotation has a cosine part, the same for minus the angle, and a sine part, which turns."""
    if not any(argument.holds == "angles" for argument in e.spec.arguments):
        return None

    def at(sign: int, swap: bool) -> Tensor:
        return e.spec(
            *[
                sign * (x.roll(x.shape[-1] // 2, -1) if swap else x) if a.holds == "angles" else x
                for x, a in _arguments(e)
            ]
        )

    cosines, sines = (at(1, False) + at(-1, False)) / 2, (at(1, False) - at(-1, False)) / 2
    in_first = torch.arange(sines.shape[-1]) < _rotary_dim(e) // 2
    for half, sign in (("first", in_first), ("second", ~in_first)):
        if _is(cosines + torch.where(sign, -sines, sines), e):
            return f"a sign: that of the sine in the {half} half"
    if e.spec.angles == "unlike" and _is(cosines + (at(1, True) - at(-1, True)) / 2, e):
        return "the wrong sine: each half takes the sine that the other should take"
    if e.spec.angles == "unlike" and _is(cosines - (at(1, True) - at(-1, True)) / 2, e):
        return "a sign and the wrong sine: the map itself, where its transpose is asked for"
    return None


def _position(e: Evidence) -> str | None:
    """Angles of rows counted in another way than by position."""
    floats = next((x for x, a in _arguments(e) if a.holds == "floats" and x.dim() == 4), None)
    table = next((x for x, a in _arguments(e) if a.holds == "angles"), None)
    if floats is None or table is None or e.expected.dim() != 4:
        return None
    s, b, h, _ = e.expected.shape
    row = torch.arange(s * b * h).view(s, b, h)
    position = row // (b * h)
    numbers = {
        "the row's number": row,
        "the row's number divided by h alone": row // h,
        "the row's number divided by b alone": row // b,
        "the head's number": row % h,
        "0, the first position": row * 0,
        "the text's number": row // h % b,
        "the position plus 1": position + 1,
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


def _strides(e: Evidence) -> str | None:
    """Inputs read as if they were contiguous, or a result laid down like a strided input."""
    inputs = []
    for x, _argument in _arguments(e):
        memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
        missing = x.numel() - memory.numel()
        if missing > 0:
            memory = torch.cat((memory, memory.new_zeros(missing)))
        inputs.append(memory[: x.numel()].view(x.shape))
    strided = any(not x.is_contiguous() for x in e.inputs)
    if strided and _mostly(e.spec(*inputs), e):
        return "a wrong stride: it reads the memory as if the tensor were contiguous"
    if e.case.name in STRIDED and e.earlier:
        return "a wrong stride: right for contiguous tensors, wrong for this one"
    return None


def _rest_of_block(e: Evidence) -> str | None:
    if _last_of_memory(e) and e.earlier:
        return "the rest: the last elements, which fill no whole block, are wrong"
    return None


def _rounding(e: Evidence) -> str | None:
    got, expected = e.got.double(), e.expected.double()
    largest = float(expected.abs().max())
    if ((got - expected).abs() <= 4 * torch.finfo(torch.float16).eps * largest).all():
        return "rounding: compute in fp32, and round once, at the end"
    return None


def _several_texts(e: Evidence) -> str | None:
    if e.case.name == "several texts" and e.earlier:
        return "the batch: right for one text, wrong for several"
    return None


_LOOKS = (
    *(_race, _unwritten, _rounding, _sign, _halves_swapped, _gradient_ignored, _half_angles),
    *(_wrong_sine, _pairing, _tail, _position, _rest_of_block, _strides, _several_texts),
)


def _arguments(e: Evidence):
    return zip(e.inputs, e.spec.arguments, strict=True)


def _rotary_dim(e: Evidence) -> int:
    tables = [x.shape[-1] for x, argument in _arguments(e) if argument.holds == "angles"]
    return tables[0] if tables else e.expected.shape[-1]


def _only_in_tail(e: Evidence) -> bool:
    return bool(_rotary_dim(e) < e.expected.shape[-1]) and not e.wrong[..., : _rotary_dim(e)].any()


def _last_of_memory(e: Evidence) -> bool:
    """Is all that is wrong at the end, and the larger part right?"""
    wrong = e.wrong.flatten()
    first = int(wrong.nonzero()[0])
    return first > len(wrong) // 3 and float(wrong[first:].float().mean()) > 0.9


def _rotated_back(e: Evidence) -> bool:
    inputs = [-x if argument.holds == "angles" else x for x, argument in _arguments(e)]
    return any(a.holds == "angles" for a in e.spec.arguments) and _is(e.spec(*inputs), e)


def _reorder(x: Tensor, order: Tensor, d2: int, holds: str) -> Tensor:
    if holds == "positions" or x.shape[-1] < d2:
        return x
    return torch.cat((x[..., :d2][..., order], x[..., d2:]), -1)


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
