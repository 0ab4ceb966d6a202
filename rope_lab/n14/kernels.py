"""What notebook 14 asks for and measures: rows into slots of a cache. Importing it loads Triton."""

import torch
import triton
import triton.language as tl
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


@triton.jit
def write_kernel(
    k_ptr,  # (tokens, h, d), contiguous; v likewise
    v_ptr,
    k_cache_ptr,  # (blocks, page, h, d), with the strides below; v_cache likewise
    v_cache_ptr,
    slots_ptr,
    page,
    block_stride,
    place_stride,
    h_stride,
    H: tl.constexpr,
    D: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token).to(tl.int64)
    element = tl.arange(0, H * D)
    k = tl.load(k_ptr + token * H * D + element)
    v = tl.load(v_ptr + token * H * D + element)
    start = slot // page * block_stride + slot % page * place_stride
    offset = start + element // D * h_stride + element % D
    tl.store(k_cache_ptr + offset, k, mask=slot >= 0)
    tl.store(v_cache_ptr + offset, v, mask=slot >= 0)


def write_to_slots(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """Two caches of the same strides, the last of which is 1."""
    tokens, h, d = k.shape
    strides = k_cache.stride()[:-1]
    given = k, v, k_cache, v_cache, slots, k_cache.shape[1]
    write_kernel[(tokens,)](*given, *strides, H=h, D=d, num_warps=1)
