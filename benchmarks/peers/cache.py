"""Others' kernels that write keys and values into a paged cache, from their sources.

- `reshape_and_cache_flash`, vLLM's: writes k and v, which something else has rotated;
- `rotate_and_append`, flashinfer's `rope_quantize_fp8_append_paged_kv_cache`: the rotation and the
  writing in one launch. The project has it for fp8 alone. With a cache of bf16 it is the same
  template, for a type that the project doesn't compile it for.

Caches are (blocks, page, kv heads, d), both with the same strides, the last of which is 1; q, k and
v (tokens, heads, d) with any stride of a token. Nothing is checked here but that.
"""

import functools
from ctypes import CDLL
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.peers.code import DTYPE_CODES, HERE, build, call
from benchmarks.peers.sources import Source
from benchmarks.providers.flashinfer import _FLAGS, FlashInfer

_VECTORS, _QUANTIZATION = "csrc/core/vec_dtypes", "csrc/quantization"
_TO_FP8 = f"{_QUANTIZATION}/w8a8/fp8/nvidia"
VLLM = Source(
    "cache/vLLM",
    "https://github.com/vllm-project/vllm",
    "release 0.33.0, commit 4ba787ec9",
    {
        "csrc/cache_kernels.cu": "dbcb6ebaef9086a9a76d7515030fa920d8fc2f84",
        "csrc/concat_mla_q.cuh": "10dd31b70f4e1f01184174b12fdd36d959fd6b4e",
        "csrc/cuda_vec_utils.cuh": "c962c99ec255fd96bed257a09fed934ebdb7a373",
        "csrc/type_convert.cuh": "8093c4bc87115c1a2231bafdfcab1b05fa9f4609",
        "csrc/core/cuda_compat.h": "0eafeff6219bed3c4cca8fb1920f5be530b27861",
        "csrc/core/utils.hpp": "36b8c2e38e9a8be24f3fe606bfa308eb73f14a9f",
        f"{_QUANTIZATION}/vectorization.cuh": "9d5eea00e468cfa5a24bba544db8263659d997b7",
        f"{_QUANTIZATION}/vectorization_utils.cuh": "0cc89bf289d40176d0c3be419839f55a10da4cd7",
        f"{_TO_FP8}/quant_utils.cuh": "77aabe4651119bf027d003efe98ffd950b4b0db8",
        f"{_VECTORS}/vec_dtypes.h": "41a7b91ca45ad76b11ce49ade5dbd18bcb029455",
        f"{_VECTORS}/dtype_generic.cuh": "62409c0cce93e696cebcb69cb7b34526d6b26a47",
        f"{_VECTORS}/dtype_float16.cuh": "6883d521d2ac54eee475769a47d8eb462804ec3c",
        f"{_VECTORS}/dtype_float32.cuh": "33f78c492e611385e060bb141326e03f2b631f2e",
        f"{_VECTORS}/dtype_bfloat16.cuh": "5d01a51e76fef17669d8c00a88b3e246a8f7c300",
        f"{_VECTORS}/dtype_fp8.cuh": "6d3c35e978b3cb2307b3c249dad2959338b10637",
    },
)
FLASHINFER = FlashInfer.source  # its files for RoPE hold this, too
SOURCES = {VLLM.name: VLLM}  # unpacked by `python -m benchmarks sources`


def reshape_and_cache_flash(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    k_scale: Tensor,
    v_scale: Tensor,
) -> None:
    """vLLM's function of this name: int64 slots, those below 0 left out."""
    sizes = len(slot_mapping), *key.shape, _token_stride(key), _token_stride(value)
    layout = *key_cache.shape[:2], *_strides(key_cache, value_cache)
    tensors = key, value, key_cache, value_cache, slot_mapping, k_scale, v_scale
    write = _vllm().write_to_cache
    call(write, *tensors, DTYPE_CODES[key.dtype], *sizes, *layout, k_scale.numel())


def rotate_and_append(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    positions: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    pages: tuple[Tensor, Tensor],
    places: tuple[Tensor, Tensor],
) -> Tensor:
    """flashinfer's kernel, for q, k and v in bf16; q rotated.

    Args:
        table: fp32 (rows, d), cos beside sin.
        positions: int32 (tokens,), which pick its rows.
        pages: int32 indices and indptr: the pages of each request. See `pages_of_slots`.
        places: int32 (tokens,): each token's request (below 0: left out), and its place in that.
    """
    q_out = torch.empty(q.shape, dtype=key_cache.dtype, device=q.device)
    tensors = q, k, v, q_out, table, positions, key_cache, value_cache, *pages, *places
    sizes = len(q), q.shape[1], k.shape[1], q.shape[2], *map(_token_stride, (q, k, v))
    layout = len(pages[1]) - 1, key_cache.shape[1], *_strides(key_cache, value_cache)
    append = _flashinfer().rotate_and_append
    call(append, *tensors, *sizes, *layout)
    return q_out


def pages_of_slots(
    slot_mapping: Tensor, blocks: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """`pages` and `places` that write to these slots: one request has all blocks in their order."""
    device = slot_mapping.device
    indices = torch.arange(blocks, dtype=torch.int32, device=device)
    indptr = torch.tensor([0, blocks], dtype=torch.int32, device=device)
    requests = (slot_mapping < 0).int().neg()
    return (indices, indptr), (requests, slot_mapping.clamp(min=0).int())


@functools.cache
def _vllm() -> CDLL:
    torch_headers = Path(torch.__file__).parent / "include"  # for its types, headers alone
    include = [HERE / "stubs" / "vllm_cache", VLLM.folder() / "csrc", torch_headers]
    return build("vllm_cache", include, ("-DENABLE_FP8",))  # as its build does


@functools.cache
def _flashinfer() -> CDLL:
    include = [HERE / "stubs" / "flashinfer", FLASHINFER.folder() / "include"]
    return build("flashinfer_cache", include, _FLAGS)


def _token_stride(x: Tensor) -> int:
    if x.stride()[1:] != (x.shape[2], 1):
        raise ValueError(f"x has strides {x.stride()}; accepted: heads that are contiguous")
    return x.stride(0)


def _strides(key_cache: Tensor, value_cache: Tensor) -> tuple[int, ...]:
    strides = key_cache.stride()
    if value_cache.stride() != strides or strides[-1] != 1:
        raise ValueError(
            f"caches have strides {strides} and {value_cache.stride()}; accepted: 1 "
            "for the last dimension, and the same for both"
        )
    return strides[:-1]
