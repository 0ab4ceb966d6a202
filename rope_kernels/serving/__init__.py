"""Rotation in one launch with writing to a KV cache, or splitting a packed QKV projection."""

from .cache import rope_to_cache
from .split import Packing, split_qkv_rope

__all__ = ["Packing", "rope_to_cache", "split_qkv_rope"]
