"""Notebook 14: rows into slots of a cache, in plain PyTorch, and their inputs."""

import torch
from torch import Tensor

PAGE, KV_HEADS, D = 16, 8, 128


def write_in_pytorch(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    page, has_slot = k_cache.shape[1], slots >= 0
    block, place = slots[has_slot] // page, slots[has_slot] % page
    k_cache[block, place] = k[has_slot]
    v_cache[block, place] = v[has_slot]


def tokens(size: int, device: str) -> tuple[Tensor, ...]:
    """k and v (tokens, 8, 128), their caches (blocks, 16, 8, 128), and slots; in bf16.

    In memory a block has all places of head 0, k beside v, then those of head 1. The last two
    tokens fill up a batch, and have no slot.
    """
    blocks = size // PAGE + 2
    # In fp32 first: of bf16, torch 2.11 and 2.13 draw other numbers on a CPU.
    k, v = torch.randn(2, size, KV_HEADS, D, device=device).to(torch.bfloat16)
    memory = torch.zeros(blocks, KV_HEADS, PAGE, 2 * D, device=device, dtype=torch.bfloat16)
    k_cache, v_cache = memory.transpose(1, 2).chunk(2, dim=-1)
    slots = torch.randperm(blocks * PAGE, device=device)[:size]
    slots[-2:] = -1
    return k, v, k_cache, v_cache, slots
