"""What notebook 15 compares `split_qkv_rope` with: a split, a rotation, and copies."""

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, rope_qk


def in_pieces(
    qkv: Tensor,
    rope: RotaryPositionEmbedding,
    num_heads: int,
    num_kv_heads: int,
    *,
    tensor_format: str,
    output_format: str,
) -> list[Tensor]:
    """As a model does it: views, `rope_qk`, and attention's layout."""
    heads = qkv.unflatten(-1, (num_heads + 2 * num_kv_heads, -1))
    q, k, v = heads.split((num_heads, num_kv_heads, num_kv_heads), dim=-2)
    q, k = rope_qk(q, k, rope, tensor_format)
    order = [tensor_format.index(dim) for dim in output_format]
    return [x.permute(order).contiguous() for x in (q, k, v)]


def layer() -> tuple[Tensor, RotaryPositionEmbedding]:
    """A projection of 2 sequences of 4096 tokens, with 32 heads of q and 8 each of k and v."""
    qkv = torch.randn(2, 4096, 48 * 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    return qkv, RotaryPositionEmbedding(128).cuda()
