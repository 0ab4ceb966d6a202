"""The kernels of eager PyTorch's RoPE, one by one: what notebook 02 measures."""

from collections.abc import Callable

import torch

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, reference


def parts_of_eager() -> dict[str, Callable]:
    """Cases for `lab.bench`: a copy, eager PyTorch, our kernel, and five of eager's kernels."""
    t = torch.randn(2048, 16, 8, 256, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(256).cuda()(2048)
    out, other, cos = torch.empty_like(t), torch.randn_like(t), freqs.cos().bfloat16()
    half = t[..., 128:]
    return {
        "copy": lambda: out.copy_(t),
        "eager": lambda: reference.apply_rotary_pos_emb(t, freqs),
        "fused": lambda: apply_rotary_pos_emb(t, freqs),
        "t * cos": lambda: t * cos,
        "neg of a half": lambda: -half,
        "cat of halves": lambda: torch.cat([half, t[..., :128]], dim=-1),
        "sum": lambda: t + other,
        "cat with nothing": lambda: torch.cat([t, t[..., 256:]], dim=-1),
    }
