"""What a type checker should know of results, and accept as arguments. `test_types.py` runs mypy on
this file, and on a call of each function with all of its keywords."""

from typing import assert_type

import torch
from torch import Tensor

import rope_kernels
from rope_kernels import (
    CpOrder,
    Freqs,
    OutputPairing,
    RotaryPositionEmbedding,
    Rounding,
    TensorFormat,
    apply_rotary_pos_emb,
    cp_positions,
    huggingface,
    rope_bw,
    rope_fw,
    rope_qk,
    rotate_half,
)
from rope_kernels.norms import NormRounding, norm_rope, qk_norm_rope
from rope_kernels.serving import Packing, rope_to_cache, split_qkv_rope

# as a caller's own function would keep them
tensor_format: TensorFormat = "bshd"
pairing: OutputPairing = "half"
rounding: Rounding | None = "upcast"
of_norm: NormRounding = "model"
order: CpOrder = "round_robin"
packing: Packing = "grouped"

t, ids = torch.randn(2, 8, 3, 16), torch.arange(8)
weight = torch.ones(16)

rope = RotaryPositionEmbedding(dim=16, rotary_base=10000.0, inv_freq=None)
assert_type(rope.inv_freq, Tensor)
assert_type(rope.attention_factor, float)
assert_type(rope.rotary_dim, int)
angles: Tensor = rope(16)
assert_type(rope.forward(16, offset=1), Tensor)
cos_sin = rope.cos_sin(positions=torch.rand(2, 8), dtype=torch.bfloat16)
assert_type(cos_sin, tuple[Tensor, Tensor])

scaled = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
config = {"head_dim": 16, "max_position_embeddings": 8, "rope_parameters": {"full": scaled}}
found = huggingface.from_config(config=config, layer_type="full", seq_len=16)
assert_type(found, RotaryPositionEmbedding | None)

every: list[Freqs] = [rope, angles, cos_sin]
for freqs in every:
    assert_type(apply_rotary_pos_emb(t, freqs, tensor_format, cp_order=order), Tensor)
    assert_type(rope_fw(t, freqs, "bshd", output_pairing=pairing, position_ids=ids[None]), Tensor)
    assert_type(rope_bw(t, freqs, tensor_format, rounding=rounding, inplace=True), Tensor)
    assert_type(norm_rope(t, None, freqs, tensor_format, rounding=of_norm), Tensor)
assert_type(norm_rope(t, weight, rope, "bshd", norm_after=True, start_positions=ids), Tensor)
assert_type(rotate_half(t) + rotate_half(x=t, interleaved=True), Tensor)

pair = rope_qk(t, t, rope, "thd", cu_seqlens=ids, start_positions=5, inplace=True)
assert_type(pair, tuple[Tensor, Tensor])
pair = qk_norm_rope(*pair, weight, weight, rope, "thd", cu_seqlens=ids, eps=1e-6)
assert_type(pair, tuple[Tensor, Tensor])
split = split_qkv_rope(t, rope, 1, 1, packing=packing, tensor_format=tensor_format)
assert_type(split[2], Tensor)
assert_type(rope_to_cache(t, t, t, rope, t, t, ids, position_ids=ids), Tensor)
assert_type(cp_positions(8, cp_size=2, cp_rank=1, cp_order=order, device=None), Tensor)
assert_type(cp_positions(seq_len=None, cu_seqlens=ids, cp_size=2, cp_rank=1), Tensor)

patched = rope_kernels.huggingface.patch(torch.nn.Linear(2, 2), strict=False)
assert_type(patched, rope_kernels.huggingface.Patched)
