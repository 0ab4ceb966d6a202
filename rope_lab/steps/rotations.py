"""Rotations to put into the Llama of notebook 12, in place of its `apply_rotary_pos_emb`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from torch import Tensor
from transformers.models.llama import modeling_llama

from rope_kernels import RotaryPositionEmbedding, rope_qk


class RungRope(torch.autograd.Function):
    """A kernel of the climb for x (b, h, s, d), which it gets as contiguous (s, b, h, d)."""

    @staticmethod
    def forward(ctx, x: Tensor, angles: Tensor, my_rope: Callable) -> Tensor:
        ctx.save_for_backward(angles)
        ctx.my_rope = my_rope
        return my_rope(x.permute(2, 0, 1, 3).contiguous(), angles).permute(1, 2, 0, 3)

    @staticmethod
    def backward(ctx, grad: Tensor):
        (angles,) = ctx.saved_tensors
        grad = grad.permute(2, 0, 1, 3).contiguous()
        dx = ctx.my_rope(grad, angles, transpose=True).permute(1, 2, 0, 3)
        return dx, None, None


def by_rung(my_rope: Callable, positions: int, head_dim: int, device: str) -> Callable:
    """A kernel of the climb, rungs 4 to 7. It computes cos and sin from fp32 angles by itself."""
    angles = RotaryPositionEmbedding(head_dim).to(device)(positions)

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return RungRope.apply(q, angles, my_rope), RungRope.apply(k, angles, my_rope)

    return rotate


def by_package(rounding: str = "model", fused: bool = True) -> Callable:
    """The package's kernel, with the model's own tables."""

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return rope_qk(q, k, (cos, sin), "bhsd", rounding=rounding, fused=fused)

    return rotate


def nothing(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """No rotation: the time that is left is what no kernel for RoPE gets below."""
    return q, k


def rotated_by(rotation: Callable) -> AbstractContextManager:
    """Every Llama rotates by this function of q, k, cos and sin for a while."""
    return patch.object(modeling_llama, "apply_rotary_pos_emb", rotation)
