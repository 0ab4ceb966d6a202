"""Rotary position embedding, fused in Triton. Importing this package never loads Triton."""

from .api import apply_rotary_pos_emb, cp_positions, rope_bw, rope_fw, rope_qk, rotate_half
from .embedding import RotaryPositionEmbedding
from .norm import NormRounding, norm_rope, qk_norm_rope
from .projection import Packing, rope_to_cache, split_qkv_rope
from .rotation import CpOrder, Freqs, OutputPairing, Rounding, TensorFormat
from .ways import Way, which_way

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
    "Way",
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
    "which_way",
]
