"""vLLM: its CUDA kernel for serving, from its sources; in place; no backward.

`rotary_embedding` of `csrc/pos_encoding_kernels.cu`, with the cache as its `RotaryEmbedding` keeps
it, in the dtype of the tensors, cos beside sin. k may be left out. A block rotates a token, q and
then k, so one tensor with all heads is another load than q and k: both are measured.
"""

from ctypes import CDLL
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.code import DTYPE_CODES, HERE, build, call
from benchmarks.peers.sources import Source
from benchmarks.provider import BY_ITS_HOST_CODE, FromSources
from benchmarks.workload import Layout, Workload


class Vllm(FromSources):
    """One tensor, all tokens in a row, each with its int64 position."""

    name = "vLLM"
    source = Source(
        "vLLM",
        "https://github.com/vllm-project/vllm",
        "release 0.33.0, commit 4ba787ec9",
        {"csrc/pos_encoding_kernels.cu": "bad616fc8748b343cfd59cc0933872a9f042e1ea"},
    )
    measures, built_with = BY_ITS_HOST_CODE, "-O3"
    rotates_partly = False  # the launcher has no such flag
    has_backward = False

    def layout(self, case: Case) -> Layout:
        return Layout("thd")

    def overwrites(self, case: Case, direction: str) -> bool:
        return True

    def prepare(self) -> CDLL:
        torch_headers = Path(torch.__file__).parent / "include"  # for its bfloat16, headers alone
        include = [HERE / "stubs" / "vllm", self.source.folder() / "csrc", torch_headers]
        return build("vllm", include)

    def function(self, workload: Workload):
        case, rotate = workload.case, self.code.rotate_in_place
        cache = torch.cat(workload.table(workload.x.dtype), dim=-1)
        positions = workload.positions.expand(case.b, case.s).reshape(-1).contiguous()

        def rotation(q: Tensor, k: Tensor | None = None) -> tuple[Tensor, ...]:
            sizes = len(q), q.shape[1], 0 if k is None else k.shape[1], case.d, len(cache)
            call(rotate, positions, q, k, cache, DTYPE_CODES[q.dtype], *sizes)
            return (q,) if k is None else (q, k)

        return rotation


class VllmPair(Vllm):
    """Half of the heads as q, half as k."""

    name = "vLLM, q and k"
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return Layout("thd", pair=True)


PROVIDERS = Vllm(), VllmPair()
