"""Rotate and move in one launch, as serving needs it: into a cache, and out of a projection."""

from .cache import rope_to_cache
from .split import Packing, split_qkv_rope

__all__ = ["Packing", "rope_to_cache", "split_qkv_rope"]
