"""Rotary position embedding, fused in Triton. Importing this package never loads Triton."""

from .api import apply_rotary_pos_emb, rope_bw, rope_fw, rope_qk, rotate_half
from .frequencies import RotaryPositionEmbedding

__version__ = "0.1.0"
__all__ = [
    "RotaryPositionEmbedding",
    "apply_rotary_pos_emb",
    "rope_bw",
    "rope_fw",
    "rope_qk",
    "rotate_half",
]
