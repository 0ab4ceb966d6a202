"""Unsloth: Triton, in place on q and k if their memory is (b, s, h, d), else into new tensors.

`unsloth.kernels.rope_embedding.fast_rope_embedding(Q, K, cos, sin, rope_embedding_indices=None)`,
read in 2026.10.9; gradients always go into new tensors. cos and sin are (s, d), in the dtype of q,
one row a position. This adapter has never run with the package: it was not to be had where this was
written. A stand-in with the same signature tests it.
"""

import torch

from benchmarks.case import Case
from benchmarks.providers.base import Provider
from benchmarks.providers.hugging_face import as_models_have_them
from benchmarks.workload import Layout, Workload


class Unsloth(Provider):
    """Positions other than the index come as one index a token."""

    name = "Unsloth"
    package = distribution = "unsloth"
    interleaves = rotates_partly = packs = False
    takes_a_pair = True
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case)

    def overwrites(self, case: Case, direction: str) -> bool:
        by_index = case.positions == "index"
        return direction == "forward" and self.layout(case).memory == (
            "bshd" if by_index else "bhsd"
        )

    def function(self, workload: Workload):
        from unsloth.kernels.rope_embedding import fast_rope_embedding

        case = workload.case
        cos, sin = (torch.cat((x, x), dim=-1) for x in workload.table(workload.x.dtype))
        indices = None
        if case.positions != "index":
            indices = workload.positions.reshape(-1).to(torch.int32)
        return lambda q, k: fast_rope_embedding(q, k, cos, sin, indices)
