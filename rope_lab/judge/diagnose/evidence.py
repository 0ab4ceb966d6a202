"""A wrong result, what is known about it, and guesses that are tested on it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..spec import Argument, Case, Spec

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from ..trace import OwnedMemory, Trace


# how a right result is made


@dataclass(frozen=True)
class Pairs:
    """A right result as a sum: each element times one factor, and its partner times another.

    All rotations are such sums, and so is a gather, which takes only the partner. The factors and
    the partners follow from what the specification computes from other inputs, whatever its pairs
    are. All tensors are fp64 and have the shape of the result.
    """

    number: int  # of the input that is rotated
    elements: Tensor
    partners: Tensor
    own: Tensor  # what multiplies an element
    other: Tensor  # what multiplies its partner
    has_angles: bool

    @property
    def result(self) -> Tensor:
        return self.of(self.elements, self.partners)

    def of(self, elements: Tensor, partners: Tensor) -> Tensor:
        """The result with other elements or other partners."""
        return self.own * elements + self.other * partners

    @property
    def columns(self) -> Tensor:
        """The column of each column's partner."""
        rows, partners = (x.reshape(-1, x.shape[-1]) for x in (self.elements, self.partners))
        return torch.stack([(rows - x[:, None]).abs().amax(0).argmin() for x in partners.unbind(1)])


def pairs_of(
    spec: Spec, inputs: list[Tensor], shape: torch.Size, change: Callable = lambda angles: angles
) -> Pairs | None:
    """None if the result, of this shape, isn't such a sum.

    `change`: computes other angles from a table of angles.
    """
    arguments = list(zip(inputs, spec.arguments, strict=True))
    number = next((n for n, (x, a) in enumerate(arguments) if _is_turned(x, a, shape)), None)
    if number is None:
        return None
    elements = inputs[number].double()

    def made(x: Tensor, sign: int) -> Tensor:
        others = (sign * change(y.double()) if _has_angles(a) else y.double() for y, a in arguments)
        return spec(*(x if n == number else y for n, y in enumerate(others)))

    def parts(x: Tensor) -> tuple[Tensor, Tensor]:
        """The part that stays if every angle changes its sign, as cosines do; and the rest."""
        forth, back = made(x, 1), made(x, -1)
        return (forth + back) / 2, (forth - back) / 2

    has_angles = any(_has_angles(a) for _, a in arguments)
    stays, changes = parts(elements)
    cosines, sines = parts(torch.ones_like(elements))
    if has_angles:
        of_elements, own = stays, cosines
        of_partners, other = changes, sines
    else:  # everything stays: a gather, which takes only the partner
        of_elements, own = changes, sines
        of_partners, other = stays, cosines
    partners = torch.where(other == 0, elements, of_partners / other)
    is_such = (
        torch.allclose(of_elements, own * elements)
        and torch.allclose(made(2 * elements, 1), 2 * (stays + changes))
        and torch.isin(partners.float().abs(), elements.float().abs()).double().mean() > 0.9
    )
    return Pairs(number, elements, partners, own, other, has_angles) if is_such else None


def _has_angles(argument: Argument) -> bool:
    return argument.holds == "angles"


def _is_turned(x: Tensor, argument: Argument, shape: torch.Size) -> bool:
    return argument.holds == "floats" and x.shape == shape


# a wrong result


@dataclass
class Evidence:
    """A wrong result and all that is known about it.

    The numbers confirm a guess: `got_is` compares the result with what the specification computes
    from other inputs, in the methods `expected_with_...`.
    """

    spec: Spec
    case: Case
    inputs: list[Tensor]
    got: Tensor
    expected: Tensor
    wrong: Tensor  # where, like `expected`
    trace: "Trace | None"  # None where nothing is interpreted
    earlier: list[str] = field(default_factory=list)  # cases that came out right
    # inputs that were changed and shouldn't be
    overwritten: list[str] = field(default_factory=list)
    # a verdict's words -> the result of a mistake that the specification knows
    mistakes: dict[str, Tensor] = field(default_factory=dict)
    roundings: dict[str, Tensor] = field(default_factory=dict)  # right but for these

    # comparisons

    def got_is(self, guess: Tensor) -> bool:
        """Is this what came out? Zeros equal only zeros, even if the guess is very small."""
        return self.close(self.got, guess) and bool(self.got.any()) == bool(guess.any())

    def close(self, a: Tensor, b: Tensor) -> bool:
        """Are they the same except for the rounding of this case's dtype?"""
        off = 1e-4 if self.expected.dtype in (torch.float32, torch.float64) else 1e-2
        if a.numel() == 0 or a.shape != b.shape:
            return False
        return torch.allclose(a.double(), b.double(), rtol=off, atol=off, equal_nan=True)

    # what the specification computes from other inputs

    def expected_with_input(self, number: int, value: Tensor) -> Tensor:
        """With one of the inputs replaced."""
        inputs = list(self.inputs)
        inputs[number] = value
        return self.spec(*inputs)

    def expected_with_angles(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """With every table of angles changed; in fp64, because angles are large."""
        changed = (change(x.double()) if a.holds == "angles" else x for x, a in self.arguments)
        return self.spec(*changed)

    @cached_property
    def cosines(self) -> Tensor:
        """The part of the result that has cosines."""
        return self.cosine_part(lambda angles: angles)

    @cached_property
    def sines(self) -> Tensor:
        return self.expected_with_angles(lambda angles: angles) - self.cosines

    def cosine_part(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """A rotation is the sum of two parts: minus the angle leaves the cosine's unchanged."""
        forth = self.expected_with_angles(change)
        return (forth + self.expected_with_angles(lambda angles: -change(angles))) / 2

    def sine_part(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The other part, whose sign changes with minus the angle."""
        return self.expected_with_angles(change) - self.cosine_part(change)

    @cached_property
    def pairs(self) -> Pairs | None:
        """How the result is made of elements and their partners; None if it isn't."""
        return pairs_of(self.spec, self.inputs, self.expected.shape)

    def had_shown_earlier(self, words: str) -> bool:
        """Whether a mistake of the exercise would have made an earlier, right case wrong."""
        mistaken = self.spec.mistakes.get(words)
        for case in self.spec.cases if mistaken else ():
            if case.name in self.earlier:
                inputs = self.spec.inputs(case)
                if not self.close(mistaken(*inputs), self.spec(*inputs)):
                    return True
        return False

    # what the kernel did

    @cached_property
    def unwritten(self) -> Tensor:
        """What no program stored; without a trace, what is NaN, as `settle` fills memory."""
        stored = self.trace.stored_in(self.got) if self.trace else None
        return self.got.isnan() if stored is None else ~stored

    @property
    def races(self) -> list[str]:
        return self.trace.races if self.trace else []

    @property
    def stored_twice(self) -> list[str]:
        return self.trace.stored_twice if self.trace else []

    @property
    def reread(self) -> list[str]:
        return self.trace.reread if self.trace else []

    @property
    def memory(self) -> "OwnedMemory | None":
        """The result's, with the name of the kernel's argument; None if no kernel got it."""
        begin = self.got.untyped_storage().data_ptr()
        memories = self.trace.memories if self.trace else []
        return next((memory for memory in memories if memory.begin == begin), None)

    # what the inputs are

    @property
    def arguments(self) -> list[tuple[Tensor, Argument]]:
        """Each input, and what the specification says about it."""
        return list(zip(self.inputs, self.spec.arguments, strict=True))

    @property
    def halves_have_angles(self) -> bool:
        """Does each half have its own angles, rather than each pair one angle?"""
        tables = [argument for argument in self.spec.arguments if argument.holds == "angles"]
        return bool(tables) and all(argument.letters[-1] in ("d2", "d") for argument in tables)

    # parts of a row

    @property
    def rotary_dim(self) -> int:
        """How many elements of the result's last dimension rotate, according to the angles."""
        most = self.expected.shape[-1]
        for x, argument in self.arguments:
            if argument.holds != "angles" or not argument.letters:
                continue
            if argument.letters[-1] == "d2":
                return min(most, x.shape[-1])
            if argument.letters[-1] == "p":
                return min(most, 2 * x.shape[-1])
        return most

    @property
    def only_in_tail(self) -> bool:
        """Are all wrong elements after the rotated ones?"""
        has_tail = self.rotary_dim < self.expected.shape[-1]
        return has_tail and not self.wrong[..., : self.rotary_dim].any()

    @property
    def places(self) -> dict[str, Tensor]:
        """Halves and neighbors: the parts of a row that one line of a kernel may get wrong."""
        place = torch.arange(self.expected.shape[-1])
        in_first = place < self.rotary_dim // 2
        return {
            "the first half": in_first,
            "the second half": ~in_first,
            "the first of each two neighbors": place % 2 == 0,
            "the second of each two neighbors": place % 2 == 1,
        }


# guesses


class Rank(IntEnum):
    """How much a guess says, from most to least."""

    SEEN = 0  # what was observed while the kernel ran
    OWN = 1  # a mistake that only this exercise knows
    WHOLE = 2  # one thing is done wrongly everywhere
    PART = 3  # in a part of each row
    FITTED = 4  # with a number that was fitted to the result, so it may be a coincidence
    PLACE = 5  # no guess at a cause: where it is wrong, or in which case
    FOUND = 6  # what the first wrong row or element is computed from


@dataclass(frozen=True)
class Guess:
    """Words of the verdict, and the result that confirms them."""

    words: str  # what it looks like
    result: Tensor | None = None  # what would have come out; None: tested already
    rank: Rank = Rank.WHOLE  # if several guesses hold, the lowest one is reported

    def holds(self, e: Evidence) -> bool:
        """Did exactly this come out? A result that is right up to rounding confirms none."""
        if self.result is None:
            return True
        return e.got_is(self.result) and not e.close(self.result, e.expected)


def parts(e: Evidence, words: str, wrong: Tensor, right: Tensor) -> Iterator[Guess]:
    """Guesses that this came out in a part of each row, whose name follows `words`."""
    for where, here in e.places.items():
        yield part(f"{words}{where}", torch.where(here, wrong, right))


seen = partial(Guess, rank=Rank.SEEN)
own = partial(Guess, rank=Rank.OWN)
whole = partial(Guess, rank=Rank.WHOLE)
part = partial(Guess, rank=Rank.PART)
fitted = partial(Guess, rank=Rank.FITTED)
place = partial(Guess, rank=Rank.PLACE)
found = partial(Guess, rank=Rank.FOUND)
