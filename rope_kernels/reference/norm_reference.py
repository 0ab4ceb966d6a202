"""Normalize and rotate in plain PyTorch: on any device, in every dtype. The kernels' yardstick."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..call.checks import check_tensor
from ..call.rotation import Rotation
from ..embedding.arguments import FLOATS
from ..machine.modes import is_traced, is_transformed
from . import rope_reference


def norm_rope(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    rotation: Rotation,
) -> tuple[Tensor, ...]:
    """Normalize and rotate; differentiable in every tensor, as often as you like.

    Without `like_model` all is computed in fp32 (fp64 for fp64) and rounded once, at the end. With
    it these are the operators of models in transformers, and PyTorch promotes: what meets a weight
    or cos and sin in fp32 stays in fp32.

    Args:
        tensors: one or two, each as `tensor_format` says.
        weights: as many, (d,) or (h, d); or none.
        sumsqs: as many, a sum of squares of each row; or none.
        rotation: by which angles, and how rows are normalized.
    """
    stored, rows, rounding = tensors[0].dtype, tuple(tensors), "once"
    if rotation.norm.like_model:
        rounding = "promoted" if rotation.rounding == "promoted" else "model"
    else:
        rows = tuple([t.to(rope_reference.compute_dtype(t)) for t in tensors])
    if rotation.norm.after:
        kept = "kept" if rounding == "promoted" else rounding
        rows = rope_reference.rotate(rows, rotation, kept)
    normal = []
    for i, row in enumerate(rows):
        weight, sumsq = (x[i] if x else None for x in (weights, sumsqs))
        normal.append(normalize(row, weight, sumsq, rotation))
    rows = tuple(normal)
    if not rotation.norm.after:
        rows = rope_reference.rotate(rows, rotation, rounding)
    return tuple([row.to(stored).contiguous() for row in rows])


def normalize(
    x: Tensor,
    weight: Tensor | None,
    sumsq: Tensor | None,
    rotation: Rotation,
) -> Tensor:
    """x / rms(x) * (weight_offset + weight), in the dtype of `x`; sums in fp32 at least.

    Like a model that does not cast last, it is cast before a product that the weight may promote.
    """
    exact = x.to(rope_reference.compute_dtype(x))
    if sumsq is None:
        mean = exact.square().mean(-1, keepdim=True)
    else:
        mean = sumsq.to(exact.dtype).unsqueeze(-1) / rotation.norm.dim
    normal = exact * torch.rsqrt(mean + rotation.norm.eps)
    if weight is None:
        return normal.to(x.dtype)
    if weight.dim() == 2:  # (h, d), with a dimension for each one between those two
        between = rotation.tensor_format.index("d") - rotation.tensor_format.index("h") - 1
        weight = weight.reshape(weight.shape[0], *[1] * between, weight.shape[1])
    if rotation.norm.like_model and not rotation.norm.casts_last:
        return weight * normal.to(x.dtype)
    return ((weight.to(exact.dtype) + rotation.norm.weight_offset) * normal).to(x.dtype)


def sum_of_squares(t: Tensor) -> Tensor:
    """The sum of squares of each row, (..., d) to (...), in fp32 (fp64 for fp64).

    Raises:
        TypeError: `t` is no tensor, or of a dtype that no function rotates.
        ValueError: `t` is sparse or nested.
    """
    check_tensor("t", t, FLOATS)
    if is_traced() or is_transformed():  # a compiler makes one kernel of these three operators
        return t.to(rope_reference.compute_dtype(t)).square().sum(-1)
    return _SumOfSquares.apply(t)


class _SumOfSquares(torch.autograd.Function):
    """Reads `t` once, and saves nothing but `t`.

    PyTorch would go back through the root, which has no second derivative in a row of zeros.
    """

    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return torch.linalg.vector_norm(t, dim=-1, dtype=rope_reference.compute_dtype(t)).square()

    @staticmethod
    def backward(ctx, grad):
        (t,) = ctx.saved_tensors
        return (2 * grad.unsqueeze(-1) * t).to(t.dtype)
