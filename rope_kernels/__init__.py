"""Rotary position embedding, fused in Triton. Importing this package never loads Triton."""

from .api import apply_rotary_pos_emb, rope_bw, rope_fw, rope_qk, rotate_half
from .call.arguments import Freqs, OutputPairing, Rounding
from .call.formats import TensorFormat
from .call.norm_checks import NormRounding
from .embedding import RotaryPositionEmbedding, grid_positions, mrope_axes
from .norm_api import norm_rope, qk_norm_rope
from .reference import sum_of_squares

__version__ = "0.1.0"
__all__ = [
    "Freqs",
    "NormRounding",
    "OutputPairing",
    "RotaryPositionEmbedding",
    "Rounding",
    "TensorFormat",
    "apply_rotary_pos_emb",
    "grid_positions",
    "mrope_axes",
    "norm_rope",
    "qk_norm_rope",
    "rope_bw",
    "rope_fw",
    "rope_qk",
    "rotate_half",
    "sum_of_squares",
]
