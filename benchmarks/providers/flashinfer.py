"""flashinfer: its CUDA kernels for serving, from its sources.

`BatchQKApplyRotaryPosIdsCosSinCache` (an fp32 table, cos beside sin) and `BatchQKApplyRotaryPosIds`
(angles of fp32 products and the fast sine) of `include/flashinfer/pos_enc.cuh`, which the package's
functions call. All tokens are in a row, each with its position. There is no backward. Its build
(`flashinfer/jit/core.py`) compiles with -use_fast_math.
"""

from ctypes import CDLL

import torch
from torch import Tensor

from benchmarks.case import BASE, Case
from benchmarks.peers.code import HERE, build, call
from benchmarks.peers.sources import Source
from benchmarks.provider import BY_ITS_HOST_CODE, FromSources
from benchmarks.workload import Layout, Workload

_FLAGS = ("-use_fast_math", "-DNDEBUG")


class FlashInfer(FromSources):
    """The kernel with a table: q and k at once, in place, which is faster than into new ones."""

    name = "flashinfer"
    source = Source(
        "flashinfer",
        "https://github.com/flashinfer-ai/flashinfer",
        "release 0.7.2.post1, commit beabf5004585b03da60e927bbb803acbaa62fe36",
        {
            "include/flashinfer/pos_enc.cuh": "87664f4cdb0afac7c8ba39b0102bed72155c26c6",
            "include/flashinfer/layout.cuh": "aeaf26b580c753293773b0c73d45a3badacee720",
            "include/flashinfer/math.cuh": "f06ae0feb9ab8c87857728f103f1559d4fd466f6",
            "include/flashinfer/page.cuh": "4e4d490cc824e4009f234b6a05f363eb375a907a",
            "include/flashinfer/utils.cuh": "9f78fd05c0b6ad58663c0fd86f27c73d40b07160",
            "include/flashinfer/vec_dtypes.cuh": "d0cfa148e12448c1f1311b01f485a0fa6b003a8c",
            "include/flashinfer/exception.h": "aaaa2b5b3e51d6274cb97087c346d69ffa6a8683",
        },
    )
    measures, built_with = BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))
    dtypes = ("bfloat16",)  # of the launcher; the project has fp16, too
    rotates_partly = False  # the launcher has no such flag
    has_backward = False
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return Layout("thd", pair=True)

    def overwrites(self, case: Case, direction: str) -> bool:
        return True

    def prepare(self) -> CDLL:
        include = [HERE / "stubs" / "flashinfer", self.source.folder() / "include"]
        return build("flashinfer", include, _FLAGS)

    def function(self, workload: Workload):
        cache = torch.cat(workload.table(torch.float32), dim=-1)
        return self._rotation(workload, self.code.rotate_by_cache, tables=(cache,))

    def _rotation(self, workload: Workload, rotate, tables: tuple = (), last: tuple = ()):
        case = workload.case
        positions = workload.positions.expand(case.b, case.s).reshape(-1).to(torch.int32)

        def rotation(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            sizes = len(q), q.shape[1], k.shape[1], case.d
            call(rotate, q, k, q, k, *tables, positions, *sizes, *last)
            return q, k

        return rotation


class FlashInferOnTheFly(FlashInfer):
    """The same without a table."""

    name = "flashinfer, on the fly"

    def function(self, workload: Workload):
        return self._rotation(workload, self.code.rotate_on_the_fly, last=(BASE,))


PROVIDERS = FlashInfer(), FlashInferOnTheFly()
