"""Rotary position embedding, fused in Triton. Importing this package never loads Triton."""

from .api import (
    apply_rotary_pos_emb,
    cp_positions,
    norm_rope,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
    rotate_half,
    split_qkv_rope,
)
from .call.arguments import Freqs, NormRounding, OutputPairing, Rounding
from .call.formats import TensorFormat
from .call.packed_format import Packing
from .call.positions import CpOrder
from .embedding import RotaryPositionEmbedding

__version__ = "0.1.0"
__all__ = [
    "CpOrder",
    "Freqs",
    "NormRounding",
    "OutputPairing",
    "Packing",
    "RotaryPositionEmbedding",
    "Rounding",
    "TensorFormat",
    "apply_rotary_pos_emb",
    "cp_positions",
    "norm_rope",
    "qk_norm_rope",
    "rope_bw",
    "rope_fw",
    "rope_qk",
    "rope_to_cache",
    "rotate_half",
    "split_qkv_rope",
]
