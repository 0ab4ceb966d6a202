"""A right result as a sum: each element times one factor, and its partner times another.

So are all rotations, and a gather, which takes the partner alone. Then the factors and the partners
follow from what the specification makes of other inputs, whatever its pairs are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..spec import Argument, Spec


@dataclass(frozen=True)
class Pairs:
    """In fp64; each tensor has the shape of the result."""

    number: int  # of the input that is turned
    elements: Tensor
    partners: Tensor
    own: Tensor  # what multiplies an element
    other: Tensor  # what multiplies its partner
    has_angles: bool

    @property
    def result(self) -> Tensor:
        return self.of(self.elements, self.partners)

    def of(self, elements: Tensor, partners: Tensor) -> Tensor:
        """The result with other elements, or others for partners."""
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

    `change`: gives other angles, from a table of them.
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
        forth, back = made(x, 1), made(x, -1)
        return (forth + back) / 2, (forth - back) / 2

    has_angles = any(_has_angles(a) for _, a in arguments)
    cosines, sines = parts(elements)
    own, other = parts(torch.ones_like(elements))
    if not has_angles:  # it takes the partner alone
        cosines, sines, own, other = sines, cosines, other, own
    partners = torch.where(other == 0, elements, sines / other)
    is_such = (
        torch.allclose(cosines, own * elements)
        and torch.allclose(made(2 * elements, 1), 2 * (cosines + sines))
        and torch.isin(partners.float().abs(), elements.float().abs()).double().mean() > 0.9
    )
    return Pairs(number, elements, partners, own, other, has_angles) if is_such else None


def _has_angles(argument: Argument) -> bool:
    return argument.holds == "angles"


def _is_turned(x: Tensor, argument: Argument, shape: torch.Size) -> bool:
    return argument.holds == "floats" and x.shape == shape
