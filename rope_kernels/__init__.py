"""Rotary position embedding as a fused Triton kernel. Importing this package doesn't load Triton.

There are three subpackages: `rope_kernels.norms` (RMSNorm and rotation), `rope_kernels.serving` (KV
caches and packed projections) and `rope_kernels.huggingface` (transformers models).
"""

from typing import TYPE_CHECKING

from .api import apply_rotary_pos_emb, cp_positions, rope_bw, rope_fw, rope_qk, rotate_half
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

if TYPE_CHECKING:  # A type checker that saw `__getattr__` would accept any name.
    from . import huggingface as huggingface
else:

    def __getattr__(name):
        """Import `rope_kernels.huggingface` at its first use."""
        if name == "huggingface":
            from importlib import import_module

            return import_module(".huggingface", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)

    def __dir__():
        return sorted([*__all__, "huggingface"])
