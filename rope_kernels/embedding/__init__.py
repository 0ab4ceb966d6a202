"""The angles: how far each pair turns at each position."""

from .module import RotaryPositionEmbedding
from .turns import for_both_members, in_turns, radians

__all__ = ["RotaryPositionEmbedding", "for_both_members", "in_turns", "radians"]
