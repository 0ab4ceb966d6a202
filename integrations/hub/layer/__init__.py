"""RoPE in Triton for the `kernels` library: `layers` for kernelize, and the whole package.

Every import is relative, and every operator of PyTorch is named after this module, so this copy
works beside an installed `rope_kernels` and beside copies of other versions.
"""

from . import layers, rope_kernels

__all__ = ["layers", "rope_kernels"]
