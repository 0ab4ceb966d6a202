"""What the first notebooks measure: RoPE in PyTorch, as a whole and kernel by kernel."""

from collections.abc import Callable

import torch

from rope_kernels import apply_rotary_pos_emb, reference

from ..rungs.measured import headline


def four_ways() -> dict[str, Callable]:
    """Cases for notebook 00: a copy, and RoPE by PyTorch, by `torch.compile` and by our kernel."""

    def plain_pytorch(t, freqs):
        return apply_rotary_pos_emb(t, freqs, fused=False)

    t, freqs = headline()
    out, compiled = torch.empty_like(t), torch.compile(plain_pytorch)
    return {
        "copy": lambda: out.copy_(t),
        "PyTorch": lambda: plain_pytorch(t, freqs),
        "PyTorch, compiled": lambda: compiled(t, freqs),
        "our kernel": lambda: apply_rotary_pos_emb(t, freqs),
    }


def parts_of_eager() -> dict[str, Callable]:
    """Cases for notebook 02: a copy, eager PyTorch, our kernel, and the last of eager's kernels."""
    t, freqs = headline()
    out = torch.empty_like(t)
    return {
        "copy": lambda: out.copy_(t),
        "eager": lambda: reference.apply_rotary_pos_emb(t, freqs),
        "fused": lambda: apply_rotary_pos_emb(t, freqs),
        "cat with nothing": lambda: torch.cat([t, t[..., 256:]], dim=-1),
    }
