"""vLLM's kernels for norms and caches, from their sources.

`fused_qk_norm_rope` normalizes and rotates q and k within a packed projection. Into a cache vLLM
goes in two launches: `rotary_embedding`, then `reshape_and_cache_flash`.
"""

from ctypes import CDLL
from pathlib import Path

import torch

from benchmarks.own_limit import BF16, BF16_OF_PAIRS, FP32, Row
from benchmarks.peers.code import DTYPE_CODES, HERE, build, call
from benchmarks.peers.sources import Source
from benchmarks.provider import BY_ITS_HOST_CODE, FromSources
from benchmarks.providers.rows import (
    PackedNorm,
    RotationOfOthers,
    RowProvider,
    cos_beside_sin,
    token_positions,
)
from benchmarks.providers.vllm import Vllm
from benchmarks.row_inputs import EPS, RowInputs

_VECTORS, _QUANTIZATION = "csrc/core/vec_dtypes", "csrc/quantization"
SOURCE = Source(
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
_FLAGS = ("-DENABLE_FP8",)  # as its build has it


def _build(launcher: str) -> CDLL:
    torch_headers = Path(torch.__file__).parent / "include"  # for its types, headers alone
    include = [HERE / "stubs" / "vllm_rows", SOURCE.folder() / "csrc", torch_headers]
    return build(launcher, include, _FLAGS)


class VllmNorm(PackedNorm, FromSources):
    """`fused_qk_norm_rope`: each row once read and written, rounded once, by a table of pairs."""

    name = "vLLM, norm"
    source = SOURCE
    measures, built_with = BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))
    of_tables = FP32, BF16, BF16_OF_PAIRS

    def prepare(self) -> CDLL:
        return _build("vllm_norm")

    def how(self, row: Row) -> str:
        dtype = "fp32" if row.table == FP32 else "bf16"
        return f"in place of packed q, k, v; {dtype} cos beside sin (s, d/2), with position ids"

    def make(self, inputs: RowInputs):
        row, qkv = inputs.row, self.packed(inputs)
        is_fp32 = row.table == FP32
        table = cos_beside_sin(inputs, torch.float32 if is_fp32 else torch.bfloat16)
        tensors = qkv, *inputs.weights, table, token_positions(inputs)
        sizes = int(is_fp32), row.tokens, row.h, row.k_heads, row.d, len(table)
        outs = self.q_and_k(inputs, qkv)

        def norm() -> tuple[torch.Tensor, ...]:
            call(self.code.norm_and_rotate, *tensors, *sizes, EPS)
            return outs

        return norm


class VllmRotation(RotationOfOthers, FromSources):
    """`rotary_embedding`, by a table of pairs in the dtype of q."""

    name = "vLLM, rotation"
    source = Vllm.source
    measures, built_with = BY_ITS_HOST_CODE, Vllm.built_with
    of_tables = BF16, BF16_OF_PAIRS

    def how(self, row: Row) -> str:
        return "in place; bf16 cos beside sin (s, d/2), with position ids"

    def prepare(self) -> CDLL:
        return Vllm().prepare()

    def make(self, inputs: RowInputs):
        row, (q, k), code = inputs.row, inputs.tensors, self.code
        table = cos_beside_sin(inputs, q.dtype)
        tensors = token_positions(inputs), q, k, table
        sizes = DTYPE_CODES[q.dtype], row.tokens, row.h, row.k_heads, row.d, len(table)

        def rotation() -> tuple[torch.Tensor, ...]:
            call(code.rotate_in_place, *tensors, *sizes)
            return q, k

        return rotation


class VllmCache(RowProvider, FromSources):
    """Two launches: q and k are rotated in place, then k and v are written."""

    name = "vLLM, rotate then write"
    source = SOURCE
    measures, built_with = BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))

    def suits(self, row: Row) -> bool:
        return row.to_cache and row.table in (BF16, BF16_OF_PAIRS)

    def how(self, row: Row) -> str:
        return "thd, q and k in place; bf16 cos beside sin (s, d/2); two launches"

    def prepare(self) -> CDLL:
        rotation = Vllm()
        if missing := rotation.source.missing():
            raise RuntimeError(f"not unpacked: {', '.join(missing)}")
        self.rotate_in_place = rotation.prepare().rotate_in_place
        return _build("vllm_cache")

    def make(self, inputs: RowInputs):
        row, (q, k), code = inputs.row, inputs.tensors, self.code
        table, one = cos_beside_sin(inputs, q.dtype), torch.ones(1, device=q.device)
        rotated = inputs.position_ids, q, k, table
        sizes = row.tokens, row.h, row.k_heads, row.d, len(table)
        caches, dtype = (inputs.k_cache, inputs.v_cache), DTYPE_CODES[q.dtype]
        written = k, inputs.v, *caches, inputs.slots, one, one
        strides = k.stride(0), inputs.v.stride(0), *caches[0].shape[:2], *caches[0].stride()[:3]

        def write() -> tuple[torch.Tensor, ...]:
            call(self.rotate_in_place, *rotated, dtype, *sizes)
            kinds = dtype, 0, row.tokens  # 0: not fp8
            call(code.write_to_cache, *written, *kinds, *k.shape, *strides, 1)
            return q, *caches

        return write


PROVIDERS = VllmNorm(), VllmCache(), VllmRotation()
