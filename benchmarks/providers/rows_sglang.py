"""SGLang: its kernel that normalizes and rotates q and k within a packed projection, on the fly.

`fused_qk_norm_rope` of `elementwise/fused_qknorm_rope.cuh`. Angles are fp32 products of a position
and a frequency, which each thread computes, and the sine is the hardware's.
"""

from ctypes import CDLL

import torch
from torch import Tensor

from benchmarks.own_limit import ON_THE_FLY, Row
from benchmarks.peers.code import HERE, build, call
from benchmarks.peers.sources import Source
from benchmarks.provider import BY_ITS_HOST_CODE, FromSources
from benchmarks.providers.rows import PackedNorm, token_positions
from benchmarks.row_inputs import BASE, EPS, RowInputs

_JIT = "python/sglang/kernels/jit"
_KERNEL = f"{_JIT}/csrc/elementwise/fused_qknorm_rope.cuh"
_HEADERS = f"{_JIT}/include/sgl_kernel"
# Those of its own build, for a head dimension of 128, halves apart, and no YaRN.
_FLAGS = (
    *("-std=c++20", "--use_fast_math"),
    *("-DJIT_HEAD_DIM=128", "-DJIT_INTERLEAVE=0", "-DJIT_YARN=0"),
)


class SglangNorm(PackedNorm, FromSources):
    """On the fly, with int32 positions."""

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
    measures, built_with = BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))
    of_tables = (ON_THE_FLY,)

    def how(self, row: Row) -> str:
        return "in place of packed q, k, v; with position ids"

    def prepare(self) -> CDLL:
        folder = self.source.folder() / _JIT
        include = [HERE / "stubs" / "sglang", folder / "include", folder / "csrc"]
        major, minor = torch.cuda.get_device_capability()
        return build("sglang_norm", include, (*_FLAGS, f"-DSGL_CUDA_ARCH={major}{minor}0"))

    def make(self, inputs: RowInputs):
        row, qkv, code = inputs.row, self.packed(inputs), self.code
        tensors = qkv, *inputs.weights, token_positions(inputs).int()
        sizes = row.tokens, row.h, row.k_heads, row.d
        outs = self.q_and_k(inputs, qkv)

        def norm() -> tuple[Tensor, ...]:
            call(code.norm_and_rotate, *tensors, *sizes, EPS, BASE)
            return outs

        return norm


PROVIDERS = (SglangNorm(),)
