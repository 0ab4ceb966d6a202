"""What the first notebooks measure: RoPE in PyTorch, as a whole and kernel by kernel."""

from collections.abc import Callable

import torch

from rope_kernels import apply_rotary_pos_emb, reference

from ..rungs.measured import beside_a_copy


def four_ways() -> dict[str, Callable]:
    """Cases for notebook 00: a copy, and RoPE by PyTorch, by `torch.compile` and by our kernel."""

    def plain_pytorch(t, freqs):
        return apply_rotary_pos_emb(t, freqs, fused=False)

    ways = {
        "PyTorch": plain_pytorch,
        "PyTorch, compiled": torch.compile(plain_pytorch),
        "our kernel": apply_rotary_pos_emb,
    }
    return beside_a_copy(ways)


def parts_of_eager() -> dict[str, Callable]:
    """Cases for notebook 02: a copy, eager PyTorch, our kernel, and the last of eager's kernels."""
    parts = {
        "eager": reference.apply_rotary_pos_emb,
        "fused": apply_rotary_pos_emb,
        "cat with nothing": lambda t, freqs: torch.cat([t, t[..., 256:]], dim=-1),
    }
    return beside_a_copy(parts)
