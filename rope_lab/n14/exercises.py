"""Notebook 14: rows into slots of a cache, in plain PyTorch, and their inputs."""
# ruff: noqa: F821 (the letters of shapes)

import torch
from torch import Tensor

from ..judge.spec import spec

BLOCK_SIZE, KV_HEADS, D = 16, 8, 128


@spec(launches=1, kernel=True)
def write_in_pytorch(
    k: "(s, h, d)",
    v: "(s, h, d)",
    k_cache: "(b, 16, h, d)",
    v_cache: "(b, 16, h, d)",
    slots: "(s)",
):
    block_size, has_slot = k_cache.shape[1], slots >= 0
    block, place = slots[has_slot] // block_size, slots[has_slot] % block_size
    k_cache[block, place] = k[has_slot]
    v_cache[block, place] = v[has_slot]


def tokens(size: int, device: str) -> tuple[Tensor, ...]:
    """k and v (tokens, 8, 128), their caches (blocks, 16, 8, 128), and slots; in bf16.

    In memory, a block stores all positions of head 0, each with k and then v, then those of head 1.
    The last two tokens are padding, and have no slot.
    """
    blocks = size // BLOCK_SIZE + 2
    # In fp32 first: of bf16, torch 2.11 and 2.13 draw other numbers on a CPU.
    k, v = torch.randn(2, size, KV_HEADS, D, device=device).to(torch.bfloat16)
    memory = torch.zeros(blocks, KV_HEADS, BLOCK_SIZE, 2 * D, device=device, dtype=torch.bfloat16)
    k_cache, v_cache = memory.transpose(1, 2).chunk(2, dim=-1)
    slots = torch.randperm(blocks * BLOCK_SIZE, device=device)[:size]
    slots[-2:] = -1
    return k, v, k_cache, v_cache, slots
