"""The same in plain PyTorch, with all derivatives, for tensors of every class."""

from .norm_reference import norm_rope, normalize, sum_of_squares
from .rope_reference import (
    apply_rotary_pos_emb,
    compute_dtype,
    rotate,
    rotate_half,
    to_half_split,
    to_interleaved,
)

__all__ = [
    "apply_rotary_pos_emb",
    "compute_dtype",
    "norm_rope",
    "normalize",
    "rotate",
    "rotate_half",
    "sum_of_squares",
    "to_half_split",
    "to_interleaved",
]
