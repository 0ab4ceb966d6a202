"""Rotary position embedding, fused in Triton. Importing this package never loads Triton."""

from typing import TYPE_CHECKING

from .api import apply_rotary_pos_emb, cp_positions, rope_bw, rope_fw, rope_qk, rotate_half
from .cache import rope_to_cache
from .embedding import RotaryPositionEmbedding
from .norms import NormRounding, norm_rope, qk_norm_rope
from .rotation import CpOrder, Freqs, OutputPairing, Rounding, TensorFormat
from .split import Packing, split_qkv_rope

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

if TYPE_CHECKING:  # a checker that saw `__getattr__` would accept any name
    from . import huggingface as huggingface
else:

    def __getattr__(name):
        """`rope_kernels.huggingface`, loaded when it is first asked for."""
        if name == "huggingface":
            from importlib import import_module

            return import_module(".huggingface", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)

    def __dir__():
        return sorted([*__all__, "huggingface"])
