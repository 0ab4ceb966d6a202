"""The angles: how far each pair turns at each position."""

from .axes import grid_positions, mrope_axes
from .module import RotaryPositionEmbedding
from .turns import (
    PER_PAIR,
    AnglesPerPair,
    CosSinPerPair,
    for_both_members,
    in_turns,
    radians,
)

__all__ = [
    "PER_PAIR",
    "AnglesPerPair",
    "CosSinPerPair",
    "RotaryPositionEmbedding",
    "for_both_members",
    "grid_positions",
    "in_turns",
    "mrope_axes",
    "radians",
]
