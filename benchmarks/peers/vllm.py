"""vLLM: its CUDA kernel for serving, by its own host code; in place; no backward.

`rotary_embedding` of `csrc/pos_encoding_kernels.cu`, with the cache as its `RotaryEmbedding` keeps
it, in the dtype of the tensors, cos beside sin. k may be left out, so all heads are q's here.
"""

from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.building import DTYPE_CODES, HERE, build, call, load
from benchmarks.peers.peer import BY_ITS_HOST_CODE, Peer
from benchmarks.peers.sources import VLLM
from benchmarks.workload import Layout, Workload


class Vllm(Peer):
    """One tensor, all tokens in a row, each with its int64 position."""

    name = "vLLM"
    source, measures, built_with = VLLM, BY_ITS_HOST_CODE, "-O3"
    dtypes = ("float16", "bfloat16", "float32")
    interleaves = rotates_partly = False  # the launcher has no such flags
    has_backward = False

    def layout(self, case: Case) -> Layout:
        return Layout("thd")

    def overwrites(self, case: Case, direction: str) -> bool:
        return True

    def prepare(self) -> SimpleNamespace:
        torch_headers = Path(torch.__file__).parent / "include"  # for its bfloat16, headers alone
        include = [HERE / "stubs" / "vllm", self.source.folder() / "csrc", torch_headers]
        return SimpleNamespace(rotate=load(build("vllm", include)).rotate_in_place)

    def function(self, workload: Workload):
        case, rotate = workload.case, self.calls.rotate
        cache = torch.cat(workload.table(workload.x.dtype), dim=-1)
        positions = workload.positions.expand(case.b, case.s).reshape(-1).contiguous()

        def rotation(t: Tensor) -> tuple[Tensor]:
            sizes = len(t), t.shape[1], 0, case.d, len(cache)
            call(rotate, positions, t, None, cache, DTYPE_CODES[t.dtype], *sizes)
            return (t,)

        return rotation
