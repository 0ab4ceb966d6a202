"""Rotary position embedding, fused in Triton. Importing this package never loads Triton."""

from .api import (
    apply_rotary_pos_emb,
    cp_positions,
    rope_bw,
    rope_fw,
    rope_qk,
    rotate_half,
)
from .embedding import RotaryPositionEmbedding
from .rotation import CpOrder, Freqs, OutputPairing, Rounding, TensorFormat

__version__ = "0.1.0"
__all__ = [
    "CpOrder",
    "Freqs",
    "OutputPairing",
    "RotaryPositionEmbedding",
    "Rounding",
    "TensorFormat",
    "apply_rotary_pos_emb",
    "cp_positions",
    "rope_bw",
    "rope_fw",
    "rope_qk",
    "rotate_half",
]
