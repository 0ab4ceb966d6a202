"""Other projects' kernels for rows, built from a few of their source files."""

from ctypes import CDLL

import torch
from torch import Tensor

from benchmarks.case import BASE, BF16, BF16_OF_PAIRS, EPS, FP32, NO_TABLE, Row
from benchmarks.peers.code import DTYPE_CODES, call
from benchmarks.peers.sources import Source
from benchmarks.provider import FromCuda
from benchmarks.providers.from_sources import FlashInfer, Vllm
from benchmarks.providers.rows import PackedNorm, RowProvider, cos_beside_sin
from benchmarks.row_inputs import RowInputs

_VECTORS, _QUANTIZATION = "csrc/core/vec_dtypes", "csrc/quantization"
VLLM = Source(
    "vLLM-rows",
    "https://github.com/vllm-project/vllm",
    "release 0.33.0, commit 4ba787ec9",
    {
        "csrc/fused_qknorm_rope_kernel.cu": "a75ede86fc37773482476db688318a7120330479",
        "csrc/async_util.cuh": "392d78c53fdbbcd4f03313d27194fa896ee917a3",
        "csrc/cache_kernels.cu": "dbcb6ebaef9086a9a76d7515030fa920d8fc2f84",
        "csrc/concat_mla_q.cuh": "10dd31b70f4e1f01184174b12fdd36d959fd6b4e",
        "csrc/cuda_vec_utils.cuh": "c962c99ec255fd96bed257a09fed934ebdb7a373",
        "csrc/type_convert.cuh": "8093c4bc87115c1a2231bafdfcab1b05fa9f4609",
        "csrc/core/cuda_compat.h": "0eafeff6219bed3c4cca8fb1920f5be530b27861",
        "csrc/core/utils.hpp": "36b8c2e38e9a8be24f3fe606bfa308eb73f14a9f",
        f"{_QUANTIZATION}/vectorization.cuh": "9d5eea00e468cfa5a24bba544db8263659d997b7",
        f"{_QUANTIZATION}/vectorization_utils.cuh": "0cc89bf289d40176d0c3be419839f55a10da4cd7",
        f"{_QUANTIZATION}/w8a8/fp8/nvidia/quant_utils.cuh": (
            "77aabe4651119bf027d003efe98ffd950b4b0db8"
        ),
        f"{_VECTORS}/vec_dtypes.h": "41a7b91ca45ad76b11ce49ade5dbd18bcb029455",
        f"{_VECTORS}/dtype_generic.cuh": "62409c0cce93e696cebcb69cb7b34526d6b26a47",
        f"{_VECTORS}/dtype_float16.cuh": "6883d521d2ac54eee475769a47d8eb462804ec3c",
        f"{_VECTORS}/dtype_float32.cuh": "33f78c492e611385e060bb141326e03f2b631f2e",
        f"{_VECTORS}/dtype_bfloat16.cuh": "5d01a51e76fef17669d8c00a88b3e246a8f7c300",
        f"{_VECTORS}/dtype_fp8.cuh": "6d3c35e978b3cb2307b3c249dad2959338b10637",
    },
)


class FromVllm(FromCuda):
    """How vLLM's kernels for norms and caches are compiled."""

    source = VLLM
    stubs, folders, includes_torch = "vllm_rows", ("csrc",), True  # PyTorch's types
    flags = ("-DENABLE_FP8",)


class VllmNorm(PackedNorm, FromVllm):
    """`fused_qk_norm_rope`: reads and writes each row once, rounds once, with a table of pairs."""

    name = "vLLM, norm"
    launcher = "vllm_norm"
    of_tables = FP32, BF16, BF16_OF_PAIRS

    def how(self, row: Row) -> str:
        dtype = "fp32" if row.table == FP32 else "bf16"
        return f"in place of packed q, k, v; {dtype} cos beside sin (s, d/2), with position ids"

    def make(self, inputs: RowInputs):
        row, qkv = inputs.row, self.packed(inputs)
        is_fp32 = row.table == FP32
        table = cos_beside_sin(inputs, torch.float32 if is_fp32 else torch.bfloat16)
        tensors = qkv, *inputs.weights, table, inputs.token_positions()
        sizes = int(is_fp32), row.tokens, row.h, row.k_heads, row.d, len(table)
        outs = self.q_and_k(inputs, qkv)

        def norm() -> tuple[Tensor, ...]:
            call(self.code.norm_and_rotate, *tensors, *sizes, EPS)
            return outs

        return norm


class VllmCache(RowProvider, FromVllm):
    """Two launches: `rotary_embedding` in place of q and k, then `reshape_and_cache_flash`."""

    name = "vLLM, rotate then write"
    launcher = "vllm_cache"
    rotation = Vllm()

    def suits(self, row: Row) -> bool:
        return row.to_cache and row.table in (BF16, BF16_OF_PAIRS)

    def how(self, row: Row) -> str:
        return "thd, q and k in place; bf16 cos beside sin (s, d/2); two launches"

    def absent(self) -> str:
        return self.rotation.absent() or super().absent()

    def make(self, inputs: RowInputs):
        (q, k), code = inputs.tensors, self.code
        table, one = cos_beside_sin(inputs, q.dtype), torch.ones(1, device=q.device)
        caches, dtype = (inputs.k_cache, inputs.v_cache), DTYPE_CODES[q.dtype]
        written = k, inputs.v, *caches, inputs.slots, one, one
        strides = k.stride(0), inputs.v.stride(0), *caches[0].shape[:2], *caches[0].stride()[:3]

        def write() -> tuple[Tensor, ...]:
            self.rotation.rotate(inputs.position_ids, table, q, k)
            kinds = dtype, 0, len(k)  # 0: not fp8
            call(code.write_to_cache, *written, *kinds, *k.shape, *strides, 1)
            return q, *caches

        return write


_JIT = "python/sglang/kernels/jit"
_KERNEL = f"{_JIT}/csrc/elementwise/fused_qknorm_rope.cuh"
_HEADERS = f"{_JIT}/include/sgl_kernel"


class SglangNorm(PackedNorm, FromCuda):
    """`fused_qk_norm_rope`, in a packed projection, on the fly, with int32 positions.

    Each thread computes angles as fp32 products of position and frequency, and uses the hardware's
    sine.
    """

    name = "SGLang, norm"
    source = Source(
        "SGLang",
        "https://github.com/sgl-project/sglang",
        "release 0.5.23",
        {
            _KERNEL: "b21e6c0d9dab917545b7446371ac252b286e5199",
            f"{_HEADERS}/bits.h": "c2d7713aaae650f250b90b8c4acc08eafa3a6987",
            f"{_HEADERS}/math.cuh": "cb8d381b94845a9132d6f49f0f00cfded8c87369",
            f"{_HEADERS}/source_location.h": "d8c70c4420773a7a37d692870a68f9d431ec7b21",
            f"{_HEADERS}/tile.cuh": "332e167c11701e61890872a639b7258250a41c35",
            f"{_HEADERS}/type.cuh": "db9a90f02137f3d3675114d2dcadfdf6e62c143b",
            f"{_HEADERS}/utils.cuh": "d69de6c30262f06d034ead7b233790f609e78306",
            f"{_HEADERS}/utils.h": "38ad89ba13b09861d9b278ad66afd5ad4f1262d5",
            f"{_HEADERS}/vec.cuh": "ca8e36e88d7263ebf6ba2d8b588c8cbcccf523a2",
            f"{_HEADERS}/warp.cuh": "0697e111373cd3dbf9699b8a88b7850ce6cfe8c7",
        },
    )
    launcher, stubs, folders = "sglang_norm", "sglang", (f"{_JIT}/include", f"{_JIT}/csrc")
    # for a head dimension of 128, half-split, without YaRN
    flags = (
        *("-std=c++20", "--use_fast_math"),
        *("-DJIT_HEAD_DIM=128", "-DJIT_INTERLEAVE=0", "-DJIT_YARN=0"),
    )
    of_tables = (NO_TABLE,)

    def how(self, row: Row) -> str:
        return "in place of packed q, k, v; with position ids"

    def prepare(self) -> CDLL:
        major, minor = torch.cuda.get_device_capability()
        return super().prepare(f"-DSGL_CUDA_ARCH={major}{minor}0")

    def make(self, inputs: RowInputs):
        row, qkv, code = inputs.row, self.packed(inputs), self.code
        tensors = qkv, *inputs.weights, inputs.token_positions().int()
        sizes = row.tokens, row.h, row.k_heads, row.d
        outs = self.q_and_k(inputs, qkv)

        def norm() -> tuple[Tensor, ...]:
            call(code.norm_and_rotate, *tensors, *sizes, EPS, BASE)
            return outs

        return norm


class FlashInferCache(RowProvider, FromCuda):
    """`RopeQuantizeAppendPagedKVCache`: the result of q is new, and k isn't overwritten.

    The project compiles this template only for fp8 caches. Here it is compiled for bf16.
    """

    name = "flashinfer, cache"
    source, flags = FlashInfer.source, FlashInfer.flags
    launcher, stubs, folders = "flashinfer_cache", "flashinfer", ("include",)

    def suits(self, row: Row) -> bool:
        return row.to_cache and row.table == FP32

    def how(self, row: Row) -> str:
        return "thd; fp32 cos beside sin (s, d/2), int32 ids and slots; for bf16, not shipped"

    def make(self, inputs: RowInputs):
        row, (q, k), v, code = inputs.row, inputs.tensors, inputs.v, self.code
        caches, q_out = (inputs.k_cache, inputs.v_cache), torch.empty_like(q)
        blocks = len(caches[0])
        options = {"dtype": torch.int32, "device": q.device}
        indices, indptr = torch.arange(blocks, **options), torch.tensor([0, blocks], **options)
        requests = torch.zeros(row.tokens, **options)  # One request has all pages, in order.
        pages = indices, indptr, requests, inputs.slots.int()
        table, ids = cos_beside_sin(inputs, torch.float32), inputs.position_ids.int()
        tensors = q, k, v, q_out, table, ids, *caches, *pages
        sizes = 0, row.tokens, row.h, row.k_heads, row.d  # 0: not fp8
        strides = q.stride(0), k.stride(0), v.stride(0)
        layout = 1, caches[0].shape[1], *caches[0].stride()[:3]

        def append() -> tuple[Tensor, ...]:
            call(code.rotate_and_append, *tensors, *sizes, *strides, *layout, 1.0, 1.0)
            return q_out, *caches

        return append


PROVIDERS = VllmNorm(), VllmCache(), SglangNorm(), FlashInferCache()
