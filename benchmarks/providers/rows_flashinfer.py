"""flashinfer's kernels for norms and caches, from their sources.

`RopeQuantizeAppendPagedKVCache` rotates q and k, and writes k and v, in one launch. The project has
it for fp8 alone; with caches of bf16 it is the same template, for a type that the project doesn't
compile it for. `launchFusedQKNormRope` is for video: a token's heads are normalized together.
"""

from ctypes import CDLL
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.own_limit import FP32, ON_THE_FLY, Row
from benchmarks.peers.code import HERE, build, call
from benchmarks.provider import BY_ITS_HOST_CODE, FromSources
from benchmarks.providers.flashinfer import _FLAGS, FlashInfer
from benchmarks.providers.rows import (
    PackedNorm,
    RotationOfOthers,
    RowProvider,
    cos_beside_sin,
    token_positions,
)
from benchmarks.row_inputs import BASE, EPS, RowInputs

CACHE = FlashInfer.source  # its files for RoPE have this, too
NORM = replace(
    CACHE,
    name="flashinfer-norm",
    files={
        "include/flashinfer/norm/fused_qk_rmsnorm_rope.cuh": (
            "8f625c2faf42c53841d2abccdca2df7fb3c70aea"
        )
    },
)


class FlashInferCache(RowProvider, FromSources):
    """One launch; q comes out new, and k is not overwritten."""

    name = "flashinfer, cache"
    source = CACHE
    measures, built_with = BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))

    def suits(self, row: Row) -> bool:
        return row.to_cache and row.table == FP32

    def how(self, row: Row) -> str:
        return "thd; fp32 cos beside sin (s, d/2), int32 ids and slots; for bf16, not shipped"

    def prepare(self) -> CDLL:
        include = [HERE / "stubs" / "flashinfer", self.source.folder() / "include"]
        return build("flashinfer_cache", include, _FLAGS)

    def make(self, inputs: RowInputs):
        row, (q, k), v, code = inputs.row, inputs.tensors, inputs.v, self.code
        caches, q_out = (inputs.k_cache, inputs.v_cache), torch.empty_like(q)
        blocks = len(caches[0])
        options = {"dtype": torch.int32, "device": q.device}
        indices, indptr = torch.arange(blocks, **options), torch.tensor([0, blocks], **options)
        requests = torch.zeros(row.tokens, **options)  # one request has all pages in their order
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


class FlashInferRotation(RotationOfOthers, FromSources):
    """By an fp32 table of pairs, or on the fly."""

    name = "flashinfer, rotation"
    source = CACHE
    measures, built_with = BY_ITS_HOST_CODE, FlashInfer.built_with
    of_tables = ON_THE_FLY, FP32

    def how(self, row: Row) -> str:
        table = "fp32 cos beside sin (s, d/2), " if row.table == FP32 else ""
        return f"in place; {table}with int32 position ids"

    def prepare(self) -> CDLL:
        return FlashInfer().prepare()

    def make(self, inputs: RowInputs):
        row, (q, k), code = inputs.row, inputs.tensors, self.code
        positions, sizes = token_positions(inputs).int(), (row.tokens, row.h, row.k_heads, row.d)
        by_table = row.table == FP32
        tables = (cos_beside_sin(inputs, torch.float32),) if by_table else ()
        rotate = code.rotate_by_cache if by_table else code.rotate_on_the_fly
        last = () if by_table else (BASE,)

        def rotation() -> tuple[Tensor, ...]:
            call(rotate, q, k, q, k, *tables, positions, *sizes, *last)
            return q, k

        return rotation


class FlashInferNorm(PackedNorm, FromSources):
    """The norm of all heads of a token together, out of a packed projection; v is copied, too."""

    name = "flashinfer, one norm of all heads"
    source = NORM
    measures, built_with = BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))
    of_tables = (ON_THE_FLY,)

    def suits(self, row: Row) -> bool:
        return super().suits(row) and not row.is_packed  # a position is an index

    def how(self, row: Row) -> str:
        return "out of packed q, k, v; the mean is over all heads, and v is copied, too"

    def prepare(self) -> CDLL:
        return build("flashinfer_norm", [self.source.folder() / "include"], _FLAGS)

    def right(self, inputs: RowInputs) -> tuple[Tensor, ...]:
        return inputs.right(over_all_heads=True)

    def make(self, inputs: RowInputs):
        row, qkv, code = inputs.row, self.packed(inputs), self.code
        outs = [torch.empty_like(x) for x in (*inputs.tensors, inputs.v)]
        weights = [
            w.repeat(x.shape[2]) for w, x in zip(inputs.weights, inputs.tensors, strict=True)
        ]
        sizes = row.tokens, row.s, row.h, row.k_heads, row.d

        def norm() -> tuple[Tensor, ...]:
            call(code.norm_all_heads_and_rotate, qkv, *outs, *weights, *sizes, EPS, BASE)
            return outs[0], outs[1]

        return norm


PROVIDERS = FlashInferCache(), FlashInferNorm(), FlashInferRotation()
