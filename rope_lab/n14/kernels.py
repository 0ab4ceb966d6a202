"""Notebook 14's kernel, which writes rows into slots of a cache. Importing it loads Triton."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def write_kernel(
    k_ptr,  # (tokens, h, d), contiguous; v likewise
    v_ptr,
    k_cache_ptr,  # (blocks, block_size, h, d), with the strides below; v_cache likewise
    v_cache_ptr,
    slots_ptr,
    block_size,
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
    start = slot // block_size * block_stride + slot % block_size * place_stride
    offset = start + element // D * h_stride + element % D
    tl.store(k_cache_ptr + offset, k, mask=slot >= 0)
    tl.store(v_cache_ptr + offset, v, mask=slot >= 0)


def write_to_slots(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """Two caches of the same strides, the last of which is 1."""
    tokens, h, d = k.shape
    block_size = k_cache.shape[1]
    block_stride, place_stride, h_stride, _ = k_cache.stride()
    write_kernel[(tokens,)](
        k,
        v,
        k_cache,
        v_cache,
        slots,
        block_size,
        block_stride,
        place_stride,
        h_stride,
        H=h,
        D=d,
        num_warps=1,
    )
