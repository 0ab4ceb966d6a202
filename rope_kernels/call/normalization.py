"""How rows are normalized beside a rotation. Stands on nothing but the standard library."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

from .arguments import getter_of


@dataclass(frozen=True, slots=True)
class Normalization:
    """RMS norm of rows, as one call asks for it. `api.norm_rope` says what the words mean."""

    eps: float
    weight_offset: float  # is added to the weight
    after: bool  # normalizes the rotated row
    like_model: bool  # rounds where a model in PyTorch does, not once
    casts_last: bool  # a model that rounds after the weight, and not before it
    dim: int  # number of elements over which a mean is taken: d, or that of all heads

    @classmethod
    def of(cls, values: Iterable[float | bool]) -> "Normalization":
        """The one that has these `values`."""
        return cls(*values)

    @property
    def values(self) -> tuple[float | bool, ...]:
        """All fields, in their order."""
        return _values_of(self)


_values_of = getter_of([field.name for field in fields(Normalization)])


class Wanted(NamedTuple):
    """Which gradients a backward computes."""

    inputs: bool
    weights: bool
    sums: bool  # of squares, which came from elsewhere
