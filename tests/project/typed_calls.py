"""Every public name, as a type checker should accept it. `test_types.py` runs mypy on this file,
and the file itself, and adds a call of each function with all of its keywords."""

from typing import assert_type

import torch
from torch import Tensor

import rope_kernels
from rope_kernels import (
    CpOrder,
    Freqs,
    NormRounding,
    OutputPairing,
    Packing,
    RotaryPositionEmbedding,
    Rounding,
    TensorFormat,
    apply_rotary_pos_emb,
    cp_positions,
    norm_rope,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
    rotate_half,
    split_qkv_rope,
)

S, B, H, D = 8, 2, 3, 16


def make_freqs() -> tuple[RotaryPositionEmbedding, Tensor, tuple[Tensor, Tensor]]:
    """Each of the three things that `freqs` may be."""
    plain = RotaryPositionEmbedding(D)
    rope = RotaryPositionEmbedding(
        dim=D,
        rotary_percent=1.0,
        seq_len_interpolation_factor=None,
        pretrained_max_position_embeddings=None,
        rotary_base=10000.0,
        interleaved=False,
        persistent=False,
        attention_factor=1.0,
        inv_freq=None,
    )
    assert_type(rope.inv_freq, Tensor)
    assert_type(rope.attention_factor, float)
    assert_type(rope.rotary_dim, int)
    rope.rotary_base = 2 * rope.rotary_base
    assert_type(rope.forward(2 * S, offset=1), Tensor)
    pairs = rope.cos_sin(2 * S, dtype=torch.bfloat16)
    assert_type(pairs, tuple[Tensor, Tensor])
    apply_rotary_pos_emb(torch.randn(S, B, H, D), pairs, rotary_dim=rope.rotary_dim)
    angles: Tensor = plain(2 * S)
    rows = angles[:, 0, 0]
    return rope, angles, (rows.cos(), rows.sin())


def scale_frequencies() -> Tensor:
    """As a model's configuration says."""
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    config = {"head_dim": D, "max_position_embeddings": S, "rope_parameters": {"full": rope}}
    scaled = RotaryPositionEmbedding.from_config(
        config=config, layer_type="full", seq_len=2 * S, interleaved=True
    )
    assert_type(scaled, RotaryPositionEmbedding | None)
    assert scaled is not None
    return scaled.inv_freq


def rotate_images() -> Tensor:
    """By coordinates of patches, which need not be whole numbers."""
    rope = RotaryPositionEmbedding(D)
    cos, sin = rope.cos_sin(positions=torch.rand(B, S), dtype=torch.bfloat16)
    return apply_rotary_pos_emb(torch.randn(B, S, H, D), (cos, sin), "bshd", rotary_dim=D)


def rotate_and_back() -> Tensor:
    """By a table, cos and sin, or the module; the two passes by themselves."""
    rope, angles, cos_sin = make_freqs()
    t, ids = torch.randn(B, S, H, D), torch.arange(S)[None]
    tensor_format: TensorFormat = "bshd"
    assert_type(rotate_half(t) + rotate_half(x=t, interleaved=True), Tensor)
    assert_type(apply_rotary_pos_emb(t, cos_sin, tensor_format, cp_order="zigzag"), Tensor)
    assert_type(rope_fw(t, angles, tensor_format), Tensor)
    rotated = rope_fw(t, rope, tensor_format, position_ids=ids)
    return rope_bw(rotated, rope, tensor_format, position_ids=ids, inplace=True) - t


def rotate_packed() -> tuple[Tensor, Tensor]:
    """Packed sequences that start at positions of their own."""
    rope, _, _ = make_freqs()
    q, k = torch.randn(S, H, D), torch.randn(S, 1, D)
    cuts = torch.tensor([0, 3, S])
    pair = rope_qk(q, k, rope, "thd", cu_seqlens=cuts, start_positions=5, inplace=True)
    assert_type(pair, tuple[Tensor, Tensor])
    weights = torch.ones(D), torch.ones(D)
    pair = qk_norm_rope(*pair, *weights, rope, "thd", cu_seqlens=cuts, eps=1e-6)
    assert_type(pair, tuple[Tensor, Tensor])
    return pair


def write_into_a_cache() -> Tensor:
    """Tokens of one sequence; the keys come back, too."""
    q, k, v = torch.randn(S, H, D), torch.randn(S, 1, D), torch.randn(S, 1, D)
    k_cache, v_cache = torch.zeros(2, 2, S, 1, D).unbind()
    ids = torch.arange(S)
    rope = RotaryPositionEmbedding(D)
    found = rope_to_cache(
        *(q, k, v, rope, k_cache, v_cache, ids + S), position_ids=ids, return_k=True
    )
    assert isinstance(found, tuple)
    return found[1] - k_cache[1]


def split_a_projection(packing: Packing = "grouped") -> Tensor:
    """Into attention's format."""
    qkv = torch.randn(B, S, (H + 2) * D, requires_grad=True)
    q, k, v = split_qkv_rope(
        *(qkv, RotaryPositionEmbedding(D), H, 1),
        packing=packing,
        tensor_format="bshd",
        output_format="bhsd",
    )
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def normalize_and_rotate() -> Tensor:
    """A norm after the rotation."""
    rope, angles, cos_sin = make_freqs()
    t, weight = torch.randn(B, S, H, D), torch.ones(D)
    starts = torch.zeros(B, dtype=torch.int64)
    out = norm_rope(t, weight, rope, "bshd", norm_after=True, start_positions=starts)
    assert_type(out + norm_rope(t, None, angles, "bshd"), Tensor)
    return out + norm_rope(t, weight, cos_sin, "bshd", weight_offset=1, rounding="model")


def positions_of_a_rank() -> Tensor:
    """Of a sequence, and of packed ones."""
    order: CpOrder = "round_robin"
    alone = cp_positions(S, cp_size=2, cp_rank=1, cp_order=order, device=None)
    bounds = torch.tensor([0, 4, S])
    packed = cp_positions(seq_len=None, cu_seqlens=bounds, cp_size=2, cp_rank=1)
    assert_type(packed, Tensor)
    return alone + packed


def options_by_their_types() -> Tensor:
    """Kept in variables, as a caller's own function would."""
    rope, angles, cos_sin = make_freqs()
    tensor_format: TensorFormat = "bshd"
    pairing: OutputPairing = "half"
    rounding: Rounding | None = "upcast"
    of_norm: NormRounding = "model"
    every: list[Freqs] = [rope, angles, cos_sin]
    t = torch.randn(B, S, H, D)
    out = rope_fw(t, angles, tensor_format, interleaved=True, output_pairing=pairing)
    out = rope_bw(out, angles, tensor_format, rounding=rounding)
    return sum((norm_rope(t, None, x, tensor_format, rounding=of_norm) for x in every), out)


def version() -> str:
    return rope_kernels.__version__
