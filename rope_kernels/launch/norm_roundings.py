"""Where a norm and its rotation round: in the places of PyTorch's operators, or once."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..call.normalization import Normalization
from ..call.rotation import Rotation
from ..kernels.values import Steps


class Roundings(NamedTuple):
    """What is rounded to the stored dtype, besides the result."""

    normal: bool  # the normalized row, before the weights
    product: bool  # after them
    steps: Steps  # of the rotation


def roundings_of(
    t: Tensor, weight: Tensor | None, rotation: Rotation, norm: Normalization
) -> Roundings:
    """What the model's operators round; they promote what meets a weight or cosines in fp32."""
    if not norm.like_model:
        once = Steps(fused=True, rounds_cos_sin=False, rounds_products=False)
        return Roundings(normal=False, product=False, steps=once)
    casts_first, promoted = not norm.casts_last, rotation.rounding == "promoted"
    in_fp32 = casts_first and not norm.after and _promotes(weight, t)  # what is turned
    return Roundings(
        normal=casts_first and not (norm.after and promoted),
        product=not in_fp32,
        steps=Steps(
            fused=False,
            rounds_cos_sin=rotation.sin is None and not in_fp32,  # else they have the stored dtype
            rounds_products=not (promoted or in_fp32),
        ),
    )


def _promotes(weight: Tensor | None, t: Tensor) -> bool:
    return weight is not None and torch.promote_types(weight.dtype, t.dtype) != t.dtype
