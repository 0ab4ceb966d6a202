"""flashinfer: its CUDA kernel with a table of cos and sin, for serving (no backward).

`flashinfer.rope.apply_rope_with_cos_sin_cache(positions, query, key, head_size, cos_sin_cache,
is_neox=True)` and the same with `_inplace`, read in 0.7.2.post1; its own benchmark measures the
latter. The table is fp32, cos beside sin. This adapter has never run with the package: it was not
to be had where this was written. A stand-in with the same signature tests it.
"""

import torch

from benchmarks.case import Case
from benchmarks.providers.base import Provider
from benchmarks.workload import Layout, Workload


class FlashInfer(Provider):
    """All tokens in a row, each with its position; new tensors, or in place where the case is."""

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

        case = workload.case
        cache = torch.cat(workload.table(torch.float32), dim=-1)
        tokens = workload.positions.expand(case.b, case.s).reshape(-1).to(torch.int32)
        name = "apply_rope_with_cos_sin_cache" + ("_inplace" if case.inplace else "")
        apply = getattr(rope, name)

        def function(q, k):
            rows = q.flatten(1), k.flatten(1)  # views: (tokens, heads * d)
            results = apply(tokens, *rows, case.d, cache, not case.interleaved)
            if case.inplace:
                return q, k
            return tuple(out.view(t.shape) for out, t in zip(results, (q, k), strict=True))

        return function
