"""How rows are normalized beside a rotation. Stands on nothing but the standard library."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Normalization:
    """RMS norm of rows, as one call asks for it. `norm_api.norm_rope` says what the words mean."""

    eps: float
    weight_offset: float  # is added to the weight
    after: bool  # normalizes the rotated row
    like_model: bool  # rounds where a model in PyTorch does, not once
    dim: int  # number of elements over which a mean is taken: d, or that of all heads

    @property
    def fields(self) -> tuple[float, float, bool, bool, int]:
        """All fields, in order."""
        return self.eps, self.weight_offset, self.after, self.like_model, self.dim


class Wanted(NamedTuple):
    """Which gradients a backward computes."""

    inputs: bool
    weights: bool
    sums: bool  # of squares, which came from elsewhere
