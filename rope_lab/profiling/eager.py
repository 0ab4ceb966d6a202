"""What the first notebooks measure: RoPE in PyTorch, as a whole and kernel by kernel."""

from collections.abc import Callable

import torch

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, reference


def four_ways() -> dict[str, Callable]:
    """Cases for notebook 00: a copy, and RoPE by PyTorch, by `torch.compile` and by our kernel."""

    def plain_pytorch(t, freqs):
        return apply_rotary_pos_emb(t, freqs, fused=False)

    freqs = torch.rand(2048, 1, 1, 256, device="cuda")  # unpaired: only the time counts
    t = torch.randn(2048, 16, 8, 256, device="cuda", dtype=torch.bfloat16)
    out, compiled = torch.empty_like(t), torch.compile(plain_pytorch)
    return {
        "copy": lambda: out.copy_(t),
        "PyTorch": lambda: plain_pytorch(t, freqs),
        "PyTorch, compiled": lambda: compiled(t, freqs),
        "our kernel": lambda: apply_rotary_pos_emb(t, freqs),
    }


def parts_of_eager() -> dict[str, Callable]:
    """Cases for notebook 02: a copy, eager PyTorch, our kernel, and the last of eager's kernels."""
    t = torch.randn(2048, 16, 8, 256, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(256).cuda()(2048)
    out = torch.empty_like(t)
    return {
        "copy": lambda: out.copy_(t),
        "eager": lambda: reference.apply_rotary_pos_emb(t, freqs),
        "fused": lambda: apply_rotary_pos_emb(t, freqs),
        "cat with nothing": lambda: torch.cat([t, t[..., 256:]], dim=-1),
    }
