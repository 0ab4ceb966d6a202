"""flashinfer: its CUDA kernels for serving, of the installed package or from its sources.

All tokens are in a row, each with its position. There is no backward.

Installed: `flashinfer.rope.apply_rope_with_cos_sin_cache(positions, query, key, head_size,
cos_sin_cache, is_neox=True)` and the same with `_inplace`, read in 0.7.2.post1; its own benchmark
measures the latter. The table is fp32, cos beside sin. This adapter has never run with the package:
it was not to be had where this was written. A stand-in with the same signature tests it.

From sources: `BatchQKApplyRotaryPosIdsCosSinCache` (the same table) and `BatchQKApplyRotaryPosIds`
(angles of fp32 products and the fast sine) of `include/flashinfer/pos_enc.cuh`, which the package's
functions call. Its build (`flashinfer/jit/core.py`) compiles with -use_fast_math.
"""

from ctypes import CDLL

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.building import HERE, build, call, load
from benchmarks.peers.sources import FLASHINFER
from benchmarks.providers.base import Provider
from benchmarks.providers.from_sources import BY_ITS_HOST_CODE, FromSources
from benchmarks.workload import Layout, Workload

_FLAGS = ("-use_fast_math", "-DNDEBUG")


class FlashInfer(Provider):
    """q and k at once; new tensors, or in place where the case is."""

    name = "flashinfer"
    package, distribution = "flashinfer", "flashinfer-python"
    dtypes = ("float16", "bfloat16")
    has_backward = False
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return Layout("thd", pair=True)

    def overwrites(self, case: Case, direction: str) -> bool:
        return case.inplace

    def function(self, workload: Workload):
        from flashinfer import rope

        case, cache, tokens = workload.case, _cache(workload), _positions(workload)
        name = "apply_rope_with_cos_sin_cache" + ("_inplace" if case.inplace else "")
        apply = getattr(rope, name)

        def function(q, k):
            rows = q.flatten(1), k.flatten(1)  # views: (tokens, heads * d)
            results = apply(tokens, *rows, case.d, cache, not case.interleaved)
            if case.inplace:
                return q, k
            return tuple(out.view(t.shape) for out, t in zip(results, (q, k), strict=True))

        return function


class FlashInferFromSources(FromSources, FlashInfer):
    """The kernel with a table; new tensors."""

    source, measures, built_with = FLASHINFER, BY_ITS_HOST_CODE, " ".join(("-O3", *_FLAGS))
    dtypes = ("bfloat16",)  # of the launcher; the project has fp16, too
    interleaves = rotates_partly = False  # the launcher has no such flags
    inplace = False

    def overwrites(self, case: Case, direction: str) -> bool:
        return self.inplace

    def prepare(self) -> CDLL:
        include = [HERE / "stubs" / "flashinfer", self.source.folder() / "include"]
        return load(build("flashinfer", include, _FLAGS))

    def function(self, workload: Workload):
        return self._rotation(workload, self.code.rotate_by_cache, tables=(_cache(workload),))

    def _rotation(self, workload: Workload, rotate, tables: tuple = (), last: tuple = ()):
        case, positions = workload.case, _positions(workload)

        def rotation(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            out = (q, k) if self.inplace else (torch.empty_like(q), torch.empty_like(k))
            sizes = len(q), q.shape[1], k.shape[1], case.d
            call(rotate, q, k, *out, *tables, positions, *sizes, *last)
            return out

        return rotation


class FlashInferInPlace(FlashInferFromSources):
    """The same, results into the tensors that it is given."""

    name = "flashinfer, in place"
    inplace = True


class FlashInferOnTheFly(FlashInferFromSources):
    """The same without a table."""

    name = "flashinfer, on the fly"

    def function(self, workload: Workload):
        base = float(workload.case.base)
        return self._rotation(workload, self.code.rotate_on_the_fly, last=(base,))


def _cache(workload: Workload) -> Tensor:
    return torch.cat(workload.table(torch.float32), dim=-1)


def _positions(workload: Workload) -> Tensor:
    case = workload.case
    return workload.positions.expand(case.b, case.s).reshape(-1).to(torch.int32)
