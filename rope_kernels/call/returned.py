"""What a rotation returns: tensors of which dtype and of which strides."""

import torch
from torch import Tensor

from .rotation import Rotation


def returned_dtype(rotation: Rotation, t: Tensor) -> torch.dtype:
    """That of the result, from what turns: another one only if the rotation promotes."""
    if not rotation.promoted_from:
        return t.dtype
    return getattr(torch, rotation.promoted_from) if rotation.transpose else rotation.table.dtype


def memory_for(tensors: tuple[Tensor, ...], rotation: Rotation) -> tuple[Tensor, ...]:
    """Empty tensors for the results of one launch."""
    keeps = rotation.keeps_strides and not rotation.transpose
    kind = torch.preserve_format if keeps else torch.contiguous_format
    dtype = returned_dtype(rotation, tensors[0])
    return tuple([torch.empty_like(t, dtype=dtype, memory_format=kind) for t in tensors])
