"""flashinfer: its CUDA kernels for serving, by its own host code; no backward.

`BatchQKApplyRotaryPosIdsCosSinCache` (an fp32 table, cos beside sin) and `BatchQKApplyRotaryPosIds`
(angles of fp32 products and the fast sine) of `include/flashinfer/pos_enc.cuh`, which
`apply_rope_with_cos_sin_cache` and `apply_rope_pos_ids` of `flashinfer/rope.py` call. Its build
(`flashinfer/jit/core.py`) compiles with -use_fast_math.
"""

from types import SimpleNamespace

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.building import HERE, build, call, load
from benchmarks.peers.peer import BY_ITS_HOST_CODE, Peer
from benchmarks.peers.sources import FLASHINFER
from benchmarks.workload import Layout, Workload

_FLAGS = ("-use_fast_math", "-DNDEBUG")


class FlashInfer(Peer):
    """q and k at once, all tokens in a row, each with its int32 position."""

    name = "flashinfer"
    source, measures, built_with = FLASHINFER, BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))
    dtypes = ("bfloat16",)  # of the launcher; the project has fp16, too
    interleaves = rotates_partly = False  # the launcher has no such flags
    has_backward = False
    takes_a_pair = True
    inplace = False

    def layout(self, case: Case) -> Layout:
        return Layout("thd", pair=True)

    def overwrites(self, case: Case, direction: str) -> bool:
        return self.inplace

    def prepare(self) -> SimpleNamespace:
        include = [HERE / "stubs" / "flashinfer", self.source.folder() / "include"]
        library = load(build("flashinfer", include, _FLAGS))
        return SimpleNamespace(
            by_cache=library.rotate_by_cache, on_the_fly=library.rotate_on_the_fly
        )

    def function(self, workload: Workload):
        cache = torch.cat(workload.table(torch.float32), dim=-1)
        return self._rotation(workload, self.calls.by_cache, (cache,), ())

    def _rotation(self, workload: Workload, rotate, tables: tuple, last: tuple):
        case = workload.case
        positions = workload.positions.expand(case.b, case.s).reshape(-1).to(torch.int32)

        def rotation(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            out = (q, k) if self.inplace else (torch.empty_like(q), torch.empty_like(k))
            sizes = len(q), q.shape[1], k.shape[1], case.d
            call(rotate, q, k, *out, *tables, positions, *sizes, *last)
            return out

        return rotation


class FlashInferInPlace(FlashInfer):
    """The same, results into the tensors that it is given."""

    name = "flashinfer, in place"
    inplace = True


class FlashInferOnTheFly(FlashInfer):
    """The same without a table."""

    name = "flashinfer, on the fly"

    def function(self, workload: Workload):
        return self._rotation(workload, self.calls.on_the_fly, (), (float(workload.case.base),))
