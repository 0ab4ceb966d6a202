"""What the kernels compute, in plain PyTorch, and how rows are normalized."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .. import reference
from ..rotation import Rotation, Rounding, compute_dtype

NormRounding = Literal["once", "model", "model_cast_last"]
Tensors = tuple[Tensor, ...]
Weights = tuple[Tensor | None, ...]  # as many
Gradients = tuple[Tensor | None, ...]  # None: not wanted


class Norm(NamedTuple):
    """How rows are normalized: the arguments of the public functions."""

    eps: float
    weight_offset: float
    norm_after: bool
    rounding: str | None

    @property
    def like_model(self) -> bool:
        """Whether values are rounded where a model's operators do it.

        This is asked before `rounding` is checked, so it may be anything, an array too.
        """
        return isinstance(self.rounding, str) and self.rounding != "once"

    @property
    def rotation_rounding(self) -> Rounding:
        """Where the rotation of a norm rounds. Roundings of a norm are not those of a rotation."""
        return "model" if self.like_model else "once"

    @property
    def casts_last(self) -> bool:
        """Whether a model rounds the product with the weight alone, as all with an offset do."""
        with_offset = self.rounding == "model" and self.weight_offset != 0
        return with_offset or self.rounding == "model_cast_last"


def normalize_and_rotate(
    tensors: Tensors, weights: Weights, rotation: Rotation, norm: Norm
) -> Tensors:
    """The kernels' definition; differentiable in every tensor, as often as you like.

    With `norm.like_model` these are the operators of models in transformers, and PyTorch promotes:
    what meets a weight or cosines in fp32 stays in fp32. Else all is computed in fp32 (fp64 for
    fp64), and rounded once, at the end.
    """
    rows = tensors
    if not norm.like_model:
        rows = tuple([t.to(compute_dtype(t)) for t in tensors])
    if norm.norm_after:
        rows = reference.rotate(
            rows, rotation, stays_promoted=rotation.options.rounding == "promoted"
        )
    rows = tuple([_normalize(x, w, norm) for x, w in zip(rows, weights, strict=True)])
    if not norm.norm_after:
        # Each by itself: a weight may have promoted one of them.
        rows = tuple([reference.rotate((x,), rotation)[0] for x in rows])
    return tuple([x.to(tensors[0].dtype).contiguous() for x in rows])


def _normalize(x: Tensor, weight: Tensor | None, norm: Norm) -> Tensor:
    """x / rms(x) * (weight_offset + weight), in the dtype of `x`; sums in fp32 at least.

    Like a model that does not cast last, it is cast before a product that the weight may promote.
    """
    exact = x.to(compute_dtype(x))
    normal = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + norm.eps)
    if weight is None:
        return normal.to(x.dtype)
    if norm.like_model and not norm.casts_last:
        return weight * normal.to(x.dtype)
    return ((weight.to(exact.dtype) + norm.weight_offset) * normal).to(x.dtype)
